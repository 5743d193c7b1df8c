//! HTTP over TCP and TLS, on tokio: connections are kept and used again, everything has a deadline.
//!
//! `endpoint` says where a URL leads, `tls` encrypts, `pool` keeps connections. It is hyper's
//! connection with a pool of a few lines around it, and not one of the clients that are built on it:
//! those hide whether a request got out before it failed, and an exact limiter must know.

mod endpoint;
mod pool;
mod tls;

pub(crate) use endpoint::{Endpoint, Post};
pub(crate) use pool::{Pool, Response};
pub(crate) use tls::Tls;
