//! Decides, exactly and fast, whether a request may pass now.
pub use tollgate_core::*;
