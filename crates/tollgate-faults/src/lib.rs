//! Measures what callers get while a backend fails: real servers, a fault, a steady load.
//!
//! A [`Scenario`] starts servers, puts a load on a limiter ([`load`]), causes its fault and returns
//! the rows of a table. `cargo run -p tollgate-faults -- NAME…` runs scenarios by name, all of them
//! without a name. The figures depend on the machine, so no test asserts them.

pub mod load;
pub mod scenario;

pub use load::{Load, Sample, Summary};
pub use scenario::{SCENARIOS, Scenario};

/// Errors of servers, stores and connections: a measurement ends with the first one.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = core::result::Result<T, E>;
