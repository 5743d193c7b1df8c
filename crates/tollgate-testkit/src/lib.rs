//! x
pub mod check;
pub mod model;
pub mod rng;
pub mod trace;
