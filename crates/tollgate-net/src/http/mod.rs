//! HTTP/1.1 over TCP and TLS, on tokio, with a connection pool and timeouts.
//!
//! `endpoint` parses URLs, `pool` keeps connections. The pool is built on hyper's connection and
//! not on a client such as hyper-util's: those hide whether a request was sent before it failed.

mod endpoint;
mod pool;

pub use endpoint::{Endpoint, Post};
pub use hyper::header::{HeaderName, HeaderValue};
pub use pool::{Pool, Response};
