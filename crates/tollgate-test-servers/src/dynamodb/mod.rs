//! DynamoDB, as others serve it on one machine: dynoxide, and Amazon's own emulator.
//!
//! Neither refuses for want of capacity or because of a conflicting transaction: `gateway` stands
//! in front and does. `wire` is as much of the protocol as both need.

mod amazon;
mod gateway;
mod wire;

pub use gateway::{DynamoDbGateway, Refusal, Tally};

use std::ops::Deref;
use std::path::PathBuf;

use serde_json::Value;

use super::error::{Error, Result};
use super::install::Crate;
use super::process::Launch;
use super::server::{Resources, Server, ServerSpec};
use wire::Connection;

/// Only what answers requests: no console, no import.
const DYNOXIDE: Crate = Crate {
    name: "dynoxide-rs",
    version: "3.2.0",
    program: "dynoxide",
    features: Some("native-sqlite,http-server,cli"),
};

/// The server, built if it is not there.
pub(super) fn dynoxide() -> Result<PathBuf> {
    DYNOXIDE.built()
}

/// A server that speaks as DynamoDB does and keeps its tables in memory. It takes any credentials.
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

    /// Starts the emulator that Amazon publishes, in the version that npm carries: of 2020, so it
    /// does not tell what a failed condition found.
    ///
    /// # Errors
    /// When it or Java cannot be installed, or does not start.
    pub fn amazon() -> Result<Self> {
        Ok(Self { server: Server::start(amazon::Amazon::installed()?)? })
    }

    /// The address of a table as Tollgate takes it. Any credentials will do.
    #[must_use]
    pub fn url(&self, table: &str) -> String {
        wire::url(self.addr(), table)
    }

    /// Calls an operation past the store under test; the answer.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub fn call(&self, operation: &str, body: &Value) -> Result<Value> {
        Connection::to(self.addr())?.call(operation, body)
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

    fn launch(&self, resources: &Resources) -> Result<Launch> {
        let launch = Launch::new(dynoxide()?).args(["--host", "127.0.0.1", "--port"]);
        Ok(launch.arg(resources.port().to_string()))
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        lists_tables(resources)
    }
}

/// Whether a server answers.
fn lists_tables(resources: &Resources) -> Result<()> {
    let answer = Connection::to(resources.addr())?
        .call("ListTables", &Value::Object(serde_json::Map::new()))?;
    match answer.get("TableNames") {
        Some(_) => Ok(()),
        None => Err(Error::new("it does not list its tables")),
    }
}
