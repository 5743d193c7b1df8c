//! What a server is told: where to listen, which store, which policies.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tollgate::{Quota, Result};

use crate::policy::Policies;

/// Where each protocol listens unless told otherwise.
const HTTP_PORT: u16 = 8080;
const GRPC_PORT: u16 = 50051;
const RESP_PORT: u16 = 6380;
/// The bucket of the `default` policy.
const DEFAULT_CAPACITY: u64 = 10;

/// The configuration of a server, complete and valid.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Where HTTP listens, if it does.
    pub http: Option<SocketAddr>,
    /// Where gRPC listens, if it does.
    pub grpc: Option<SocketAddr>,
    /// Where RESP listens, if it does.
    pub resp: Option<SocketAddr>,
    /// The address of the store.
    pub store: String,
    /// The policies.
    pub policies: Policies,
    /// How many connections each listener serves at once.
    pub connections: usize,
    /// How long requests that have begun may take to end when the server does.
    pub drain: Duration,
}

impl Config {
    /// What runs without any configuration: memory, one policy, this machine only.
    ///
    /// # Errors
    /// Never, as the built-in quota is valid.
    pub fn built_in() -> Result<Self> {
        let local = |port| Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        Ok(Self {
            http: local(HTTP_PORT),
            grpc: local(GRPC_PORT),
            resp: local(RESP_PORT),
            store: "memory:".to_owned(),
            policies: Policies::of_default(DEFAULT_CAPACITY, Quota::per_second(1))?,
            connections: 10_000,
            drain: Duration::from_secs(30),
        })
    }
}
