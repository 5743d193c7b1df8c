//! Deno KV, served by its own self-hosted server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

use super::error::{Error, Result};
use super::install::Crate;
use super::process::Launch;
use super::server::{Resources, Server, ServerSpec};

const SERVER: Crate =
    Crate { name: "denokv", version: "0.14.0", program: "denokv", features: None };
/// It refuses short ones.
const TOKEN: &str = "token-of-a-test";
const ASK: Duration = Duration::from_secs(5);

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

    fn launch(&self, resources: &Resources) -> Result<Launch> {
        let launch = Launch::new(program()?).arg("--sqlite-path").arg(resources.path("kv.sqlite"));
        let addr = resources.addr().to_string();
        Ok(launch.args(["serve", "--addr", &addr, "--access-token", TOKEN]))
    }

    /// The metadata exchange, which every client begins with.
    fn probe(&self, resources: &Resources) -> Result<()> {
        let mut stream = TcpStream::connect_timeout(&resources.addr(), ASK)?;
        stream.set_read_timeout(Some(ASK))?;
        stream.set_write_timeout(Some(ASK))?;
        let body = r#"{"supportedVersions":[2,3]}"#;
        let request = format!(
            "POST / HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            resources.addr(),
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        if reply.starts_with("HTTP/1.1 200") {
            return Ok(());
        }
        Err(Error::new(format!("it answers: {}", reply.lines().next().unwrap_or_default())))
    }
}
