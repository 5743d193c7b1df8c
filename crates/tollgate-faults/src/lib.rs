//! Measures what callers get while a backend fails: real servers, a fault, a steady load.
//!
//! A [`Scenario`] is a fault on a store: three processes of `tollgate serve` share the store, a
//! load of requests runs over HTTP, and afterwards every charge is compared with the answers.
//! [`suite()`] lists all of them; each gives a [`Row`] per outage mode. A [`figure`] is a bound
//! that a run meets or misses; some measure one limiter in this process, where a fleet would hide
//! the number.
//!
//! `cargo xtask faults [NAMES]` runs them on a release build, and writes `docs/guarantees.md`. The
//! figures depend on the machine; what is safe at any speed is asserted by the tests of the binary.

mod audit;
mod backend;
mod fault;
pub mod figure;
mod fleet;
mod http;
mod load;
pub mod report;
mod row;
mod sample;
mod scenario;
mod suite;
mod timer_delay;
mod traffic;

pub use audit::Units;
pub use backend::{Store, install};
pub use fault::Fault;
pub use fleet::{Fleet, Kind, MODES};
pub use load::Load;
pub use row::Row;
pub use sample::{Answer, Sample, Summary};
pub use scenario::{Scenario, Setup};
pub use suite::suite;

/// Errors of servers, stores and connections: a measurement ends with the first one.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = core::result::Result<T, E>;
