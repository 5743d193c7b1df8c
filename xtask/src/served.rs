//! A build of the server, for tasks that load it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tollgate_test_servers::{Error, Resources, Result, ServerSpec, server_command};

/// The server, which listens on HTTP alone.
#[derive(Debug)]
pub(crate) struct Tollgate {
    pub(crate) binary: PathBuf,
    /// Its configuration, if it has one.
    pub(crate) config: Option<PathBuf>,
}

impl ServerSpec for Tollgate {
    fn name(&self) -> &'static str {
        "tollgate"
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let address = resources.addr().to_string();
        let mut command = server_command(&self.binary)?;
        command.args(["serve", "--grpc", "off", "--resp", "off", "--http", &address]);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        Ok(command)
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        let mut stream = TcpStream::connect(resources.addr())?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        match reply.starts_with("HTTP/1.1 200") {
            true => Ok(()),
            false => Err(Error::new(format!("it replied {reply:?}"))),
        }
    }
}
