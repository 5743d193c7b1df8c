//! Caddy in front of a service, with the deployed file: it forwards a request if the gate allows
//! it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use tollgate_test_servers::{Resources, Result, Server, ServerSpec, program, server_command};

use crate::support::Serving;

const SITE: &str = include_str!("../../../../deploy/caddy/Caddyfile");

/// Requests a page; returns the whole response.
fn get(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

#[derive(Debug)]
struct Caddy {
    gate: String,
}

impl Caddy {
    fn behind(resources: &Resources) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], resources.nth_port(1)))
    }
}

impl ServerSpec for Caddy {
    fn name(&self) -> &'static str {
        "caddy"
    }

    fn ports(&self) -> usize {
        2
    }

    fn prepare(&self, resources: &Resources) -> Result<()> {
        let behind = Self::behind(resources).to_string();
        let site = SITE
            .replace("127.0.0.1:8081", &resources.addr().to_string())
            .replace("127.0.0.1:8080", &self.gate)
            .replace("127.0.0.1:8082", &behind);
        let text =
            format!("{{\n\tadmin off\n}}\n{site}\nhttp://{behind} {{\n\trespond hello\n}}\n");
        resources.write("Caddyfile", &text).map(drop)
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        // It stores certificates and other files in its home folder.
        let mut command = server_command(program("caddy", "caddy")?)?;
        command.env("HOME", resources.folder()).args(["run", "--adapter", "caddyfile", "--config"]);
        command.arg(resources.path("Caddyfile"));
        Ok(command)
    }

    /// Requests the service behind: a request to the site would be counted.
    fn probe(&self, resources: &Resources) -> Result<()> {
        get(Self::behind(resources)).map(drop)
    }
}

#[test]
fn caddy_forwards_allowed_requests_and_passes_denials_on() {
    let few = [("DEFAULT_CAPACITY", "3"), ("DEFAULT_REFILL_RATE", "0.00001")];
    let server = Serving::start(&[], &few);
    let caddy = Server::start(Caddy { gate: server.at("HTTP").to_owned() }).unwrap();
    for _ in 0..3 {
        let answer = get(caddy.addr()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("hello"), "{answer}");
    }
    let answer = get(caddy.addr()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 429") && !answer.contains("hello"), "{answer}");
    for field in ["retry-after: ", "ratelimit: ", "ratelimit-policy: "] {
        assert!(answer.to_lowercase().contains(field), "{field}: {answer}");
    }
}
