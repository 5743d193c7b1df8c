//! nginx, with a site of one's own and a service behind it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::error::{Error, Result};
use super::install::program;
use super::process::Launch;
use super::server::{Place, Recipe, Server};

/// How long one attempt to reach it may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// What the service behind it answers.
const HELLO: &str = "hello from behind\n";

/// Starts nginx servers.
#[derive(Clone, Copy, Debug)]
pub struct Nginx;

impl Nginx {
    /// Starts one. `site` is told where to listen and where the service behind is, which greets
    /// everybody, and returns `server` blocks.
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
    fn behind(place: &Place) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], place.nth_port(1)))
    }
}

impl Recipe for Site {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn ports(&self) -> usize {
        2
    }

    fn prepare(&self, place: &Place) -> Result<()> {
        let (front, behind) = (place.addr(), Self::behind(place));
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("{kind}_temp_path {kind};\n"))
            .collect();
        let site = (self.0)(front, behind);
        let hello = HELLO.trim_end();
        let text = format!(
            "daemon off;\nworker_processes 1;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}\
             server {{ listen {behind}; location / {{ return 200 \"{hello}\\n\"; }} }}\n{site}\n}}\n"
        );
        place.write("nginx.conf", &text).map(drop)
    }

    fn launch(&self, place: &Place) -> Result<Launch> {
        let folder = place.folder().to_string_lossy().into_owned();
        let launch = Launch::new(program("nginx", "nginx")?);
        Ok(launch.args(["-p", &folder, "-e", "stderr", "-c", "nginx.conf"]))
    }

    /// Asks the service behind: the site itself may ask others, who may count it.
    fn ask(&self, place: &Place) -> Result<()> {
        let mut stream = TcpStream::connect_timeout(&Self::behind(place), ATTEMPT)?;
        stream.set_read_timeout(Some(ATTEMPT))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        match reply.ends_with(HELLO) {
            true => Ok(()),
            false => Err(Error::new(format!("it says {reply:?}"))),
        }
    }
}
