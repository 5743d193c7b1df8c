//! nginx, with the site of a test and a service behind it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::error::{Error, Result};
use super::install::program;
use super::process::Launch;
use super::server::{Resources, Server, ServerSpec};

/// How long one attempt to reach it may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// What the service behind it answers.
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

    fn launch(&self, resources: &Resources) -> Result<Launch> {
        let folder = resources.folder().to_string_lossy().into_owned();
        let launch = Launch::new(program("nginx", "nginx")?);
        Ok(launch.args(["-p", &folder, "-e", "stderr", "-c", "nginx.conf"]))
    }

    /// Probes the service behind: the site may forward a request to a server that counts it.
    fn probe(&self, resources: &Resources) -> Result<()> {
        let mut stream = TcpStream::connect_timeout(&Self::behind(resources), ATTEMPT)?;
        stream.set_read_timeout(Some(ATTEMPT))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        match reply.ends_with(HELLO) {
            true => Ok(()),
            false => Err(Error::new(format!("it replied {reply:?}"))),
        }
    }
}
