//! Proves a Tollgate store, algorithm or port correct.
//!
//! # Prove your own store
//! Implement [`Store`](tollgate_core::store::Store), then let the suite loose on it: one line makes
//! one test per clause of the contract. Clauses select themselves by your store's capability, open
//! keys of their own (so they can share a server), and name what they saw when they fail.
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
//! A store that needs a runtime passes its own runner, and says what the suite cannot find out:
//! `store_conformance!(runner = my_block_on, open = open, options = my_options())`.
//! [`ReferenceStore`] is the smallest correct store: read it before you write yours.
//!
//! # What is in here
//! - [`model`]: every algorithm as its mathematics, in exact rationals. It is what is right.
//! - [`trace`]: seeded traces that aim at the instants where implementations break.
//! - [`check`]: properties of the algorithms: agreement with the model, tight waits, no drift,
//!   never more admitted than one clock would admit.
//! - [`vectors`]: golden vectors, JSON files that ports to other languages run.
//! - [`conformance`]: the suite. [`mod@derive`]: decisions from a store's evidence.
//! - [`helpers`]: charges, and the units that were spent.
//! - [`contention`]: callers whose time is up while others are in their way.
//! - [`fault`]: a wrapper that makes any store fail as planned.
//! - [`runtime`]: just enough of one; no dependency on any.
//!
//! Nothing here uses floating point, sleeps, reads a clock, or starts a process; every failure
//! names its seed. What a clause demands is the product: a release that demands more is a breaking
//! change.

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
pub mod vectors;

pub use reference_store::ReferenceStore;
