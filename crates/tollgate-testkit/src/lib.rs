//! x
pub mod check;
pub mod conformance;
pub mod derive;
pub mod fault;
pub mod model;
pub mod reference_store;
pub mod rng;
pub mod runtime;
pub mod trace;
pub mod vectors;

pub use reference_store::ReferenceStore;
