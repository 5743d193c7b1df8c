//! Deno KV: its self-hosted server.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::error::{Error, Result};
use super::http::Connection;
use super::install::Crate;
use super::process::server_command;
use super::server::{Resources, Server, ServerSpec};

const SERVER: Crate =
    Crate { name: "denokv", version: "0.14.0", program: "denokv", features: None };
/// It refuses short ones.
const TOKEN: &str = "token-of-a-test";
/// How long one attempt to reach it may take.
const ATTEMPT: Duration = Duration::from_secs(5);

/// The server, built if it is not there.
pub(super) fn program() -> Result<PathBuf> {
    SERVER.built()
}

/// A Deno KV server, with a database of its own.
#[derive(Debug)]
pub struct DenoKv(Server);

impl DenoKv {
    /// Starts a server; returns once it answers.
    ///
    /// # Errors
    /// When it cannot be built or started.
    pub fn start() -> Result<Self> {
        Server::start(DenoKvSpec).map(Self)
    }

    /// The access token.
    #[must_use]
    pub const fn token(&self) -> &'static str {
        TOKEN
    }

    /// Its address, with the token.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.addr())
    }

    /// Its address behind a proxy, with the token.
    #[must_use]
    pub fn url_at(&self, addr: SocketAddr) -> String {
        format!("denokv+http://{TOKEN}@{addr}")
    }
}

impl Deref for DenoKv {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

#[derive(Debug)]
struct DenoKvSpec;

impl ServerSpec for DenoKvSpec {
    fn name(&self) -> &'static str {
        "denokv"
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let mut command = server_command(program()?)?;
        command.arg("--sqlite-path").arg(resources.path("kv.sqlite")).args(["serve", "--addr"]);
        command.arg(resources.addr().to_string()).args(["--access-token", TOKEN]);
        Ok(command)
    }

    /// The metadata exchange, which every client begins with.
    fn probe(&self, resources: &Resources) -> Result<()> {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let body = br#"{"supportedVersions":[2,3]}"#;
        match Connection::to(resources.addr(), ATTEMPT)?.send("POST /", &headers, body)? {
            (200, _) => Ok(()),
            (status, _) => Err(Error::new(format!("it answers with status {status}"))),
        }
    }
}
