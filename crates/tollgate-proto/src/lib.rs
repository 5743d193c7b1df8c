//! The gRPC interfaces of Tollgate, for clients and for the server.
//!
//! The protocol buffers are in `proto/`, the generated code is in `src/generated/`. It is
//! committed, so a build needs no compiler of protocol buffers. A test compares it with a new one.
//! To change an interface, change the `.proto`, then run the tests of this crate with
//! `UPDATE_GENERATED=1`.

#[path = "generated/tollgate.v1.rs"]
#[rustfmt::skip]
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    clippy::too_many_lines,
    clippy::use_self,
    missing_debug_implementations,
    missing_docs,
    unused_qualifications,
    rust_2018_idioms,
    reason = "generated code"
)]
pub mod tollgate_v1;

#[path = "generated/ratelimit.v1.rs"]
#[rustfmt::skip]
#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    clippy::too_many_lines,
    clippy::use_self,
    missing_debug_implementations,
    missing_docs,
    unused_qualifications,
    rust_2018_idioms,
    reason = "generated code"
)]
pub mod ratelimit_v1;

/// Everything above as descriptors, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
