//! HTTP over TCP and TLS, on tokio: connections are kept and used again, everything has a deadline.
//!
//! `endpoint` says where a URL leads, `pool` keeps connections. It is hyper's connection with a pool of a
//! few lines around it, and not one of the clients that are built on it: those hide whether a request
//! got out before it failed.

mod endpoint;
mod pool;

pub use endpoint::{Endpoint, Post};
pub use hyper::header::{HeaderName, HeaderValue};
pub use pool::{Pool, Response};
