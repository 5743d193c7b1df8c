//! DynamoDB, as others serve it on one machine: dynoxide, and Amazon's own emulator.
//!
//! Neither refuses requests for lack of capacity or because of a conflicting transaction:
//! `gateway`, in front of one, does.

mod amazon;
mod gateway;

pub use gateway::{DynamoDbGateway, Refusal, Tally};

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::error::{Error, Result};
use super::http::Connection;
use super::install::Crate;
use super::percent::encoded;
use super::process::server_command;
use super::server::{Resources, Server, ServerSpec};

/// Only what answers requests: no console, no import.
const DYNOXIDE: Crate = Crate {
    name: "dynoxide-rs",
    version: "3.2.0",
    program: "dynoxide",
    features: Some("native-sqlite,http-server,cli"),
};

/// The prefix of the name of an operation.
const TARGET: &str = "DynamoDB_20120810.";
/// How long an answer may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Emulators require a signature and do not check it.
const SIGNATURE: &str = "AWS4-HMAC-SHA256 \
                         Credential=test/20260101/us-east-1/dynamodb/aws4_request, \
                         SignedHeaders=host, Signature=none";

/// The address of a table at an endpoint.
fn url(endpoint: SocketAddr, table: &str) -> String {
    let endpoint = encoded(&format!("http://{endpoint}"));
    format!("dynamodb://{table}?region=us-east-1&endpoint={endpoint}")
}

/// Calls an operation, and returns its answer.
fn call(addr: SocketAddr, operation: &str, body: &Value) -> Result<Value> {
    let target = format!("{TARGET}{operation}");
    let headers = [
        ("x-amz-target", target.as_str()),
        ("content-type", "application/x-amz-json-1.0"),
        ("authorization", SIGNATURE),
        ("x-amz-date", "20260101T000000Z"),
    ];
    let body = body.to_string();
    match Connection::to(addr, TIMEOUT)?.send("POST /", &headers, body.as_bytes())? {
        (200, answer) => {
            serde_json::from_slice(&answer).map_err(|error| Error::new(error.to_string()))
        }
        (status, answer) => {
            let body = String::from_utf8_lossy(&answer);
            Err(Error::new(format!("{operation}: {status} {body}")))
        }
    }
}

/// The server, built if it is not there.
pub(super) fn dynoxide() -> Result<PathBuf> {
    DYNOXIDE.built()
}

/// A server with the protocol of DynamoDB and tables in memory. It accepts any credentials.
#[derive(Debug)]
pub struct DynamoDb {
    server: Server,
}

impl DynamoDb {
    /// Starts dynoxide.
    ///
    /// # Errors
    /// When it cannot be built or started.
    pub fn start() -> Result<Self> {
        Ok(Self { server: Server::start(Dynoxide)? })
    }

    /// Starts the emulator that Amazon publishes, in the version that npm carries: of 2020, which
    /// does not return the item of a failed condition.
    ///
    /// # Errors
    /// When it or Java cannot be installed, or does not start.
    pub fn amazon() -> Result<Self> {
        Ok(Self { server: Server::start(amazon::Amazon::installed()?)? })
    }

    /// The URL of a table for the store. Any credentials are accepted.
    #[must_use]
    pub fn url(&self, table: &str) -> String {
        url(self.addr(), table)
    }

    /// Calls an operation past the store under test; the answer.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub fn call(&self, operation: &str, body: &Value) -> Result<Value> {
        call(self.addr(), operation, body)
    }
}

/// Everything that a server can do.
impl Deref for DynamoDb {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// How dynoxide is started.
#[derive(Debug)]
struct Dynoxide;

impl ServerSpec for Dynoxide {
    fn name(&self) -> &'static str {
        "dynoxide"
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let mut command = server_command(dynoxide()?)?;
        let port = resources.port().to_string();
        command.args(["--host", "127.0.0.1", "--port", &port]);
        Ok(command)
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        lists_tables(resources)
    }
}

/// Whether a server answers.
fn lists_tables(resources: &Resources) -> Result<()> {
    match call(resources.addr(), "ListTables", &json!({}))?.get("TableNames") {
        Some(_) => Ok(()),
        None => Err(Error::new("it does not list its tables")),
    }
}
