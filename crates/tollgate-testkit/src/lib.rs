//! Tests for authors of a Tollgate store, an algorithm or a port to another language.
//!
//! # Test your own store
//! Implement [`Store`](tollgate_core::store::Store), then run the conformance suite on it: one line
//! makes one test per clause of the contract. The store's capability selects the clauses that
//! apply. Each clause uses its own keys, so suites can share a server, and a failure shows what it
//! found.
//!
//! ```
//! use tollgate_testkit::{ReferenceStore, conformance, runtime::block_on, store_conformance};
//!
//! async fn open() -> ReferenceStore {
//!     ReferenceStore::new() // your store here
//! }
//!
//! // In a test module. One `#[test]` per clause:
//! store_conformance!(open);
//!
//! // A clause can also be run by hand:
//! let store = block_on(open());
//! let suite = conformance::Suite::new(&store, conformance::Options::default());
//! block_on(conformance::concurrent_checks_admit_exactly(&suite));
//! ```
//!
//! A store that needs a runtime passes its own runner, and options for what the suite cannot find
//! out: `store_conformance!(runner = my_block_on, open = open, options = my_options())`.
//! [`ReferenceStore`] is the smallest correct store: read it before you write yours.
//!
//! # Modules
//! - [`model`]: every algorithm as its mathematics, in exact rationals: the definition of correct.
//! - [`trace`]: seeded traces that aim at the instants where implementations fail.
//! - [`check`]: properties of the algorithms: agreement with the model, tight waits, no drift,
//!   never more admitted than one clock would admit.
//! - [`vectors`]: golden vectors, JSON files that ports to other languages run.
//! - [`conformance`]: the suite. [`mod@derive`]: decisions from a store's evidence.
//! - [`helpers`]: charges, and the units that were spent.
//! - [`contention`]: callers whose deadline expires while other callers delay them.
//! - [`turns`]: servers that change a quota one after another.
//! - [`fault`]: a wrapper that makes any store fail as planned.
//! - [`runtime`]: a minimal one, without a dependency.
//!
//! Nothing here uses floating point, sleeps, reads a clock or starts a process; every failure names
//! its seed. The clauses are the product: a release with a stricter clause is a breaking change.

pub mod check;
pub mod conformance;
pub mod contention;
pub mod derive;
pub mod fault;
pub mod helpers;
pub mod model;
mod reference_store;
pub mod rng;
pub mod runtime;
pub mod trace;
pub mod turns;
pub mod vectors;

pub use reference_store::ReferenceStore;
