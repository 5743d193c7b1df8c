//! nginx, with the site of a test and a service behind it.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use super::error::{Error, Result};
use super::http::Connection;
use super::install::program;
use super::process::server_command;
use super::server::{Resources, Server, ServerSpec};

/// How long one attempt to reach it may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The response of the service behind it.
const HELLO: &str = "hello from behind\n";

/// Starts nginx servers.
#[derive(Clone, Copy, Debug)]
pub struct Nginx;

impl Nginx {
    /// Starts one. `site` returns `server` blocks, from the address to listen on and the address of
    /// a service behind it that answers every request.
    ///
    /// # Errors
    /// When nginx cannot be installed or started.
    pub fn start(
        site: impl Fn(SocketAddr, SocketAddr) -> String + Send + Sync + 'static,
    ) -> Result<Server> {
        Server::start(Site(Box::new(site)))
    }
}

/// A function from two addresses to a configuration.
type Write2 = dyn Fn(SocketAddr, SocketAddr) -> String + Send + Sync;

struct Site(Box<Write2>);

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Site")
    }
}

impl Site {
    fn behind(resources: &Resources) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], resources.nth_port(1)))
    }
}

impl ServerSpec for Site {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn ports(&self) -> usize {
        2
    }

    fn prepare(&self, resources: &Resources) -> Result<()> {
        let (front, behind) = (resources.addr(), Self::behind(resources));
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {kind};\n"))
            .collect();
        let site = (self.0)(front, behind);
        let hello = HELLO.trim_end();
        let text = format!(
            "daemon off;\nworker_processes 1;\npid nginx.pid;\nerror_log stderr;\n\
             events {{}}\nhttp {{\naccess_log off;\n{temporary}\
             server {{ listen {behind}; location / {{ return 200 \"{hello}\\n\"; }} }}\n\
             {site}\n}}\n"
        );
        resources.write("nginx.conf", &text).map(drop)
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let mut command = server_command(program("nginx", "nginx")?)?;
        command.arg("-p").arg(resources.folder()).args(["-e", "stderr", "-c", "nginx.conf"]);
        Ok(command)
    }

    /// Probes the service behind: the site may forward a request to a server that counts it.
    fn probe(&self, resources: &Resources) -> Result<()> {
        let mut connection = Connection::to(Self::behind(resources), ATTEMPT)?;
        match connection.send("GET /", &[], b"")? {
            (200, body) if body == HELLO.as_bytes() => Ok(()),
            reply => Err(Error::new(format!("it replied {reply:?}"))),
        }
    }
}
