//! A spec of a test: a new kind of server, and one that does not start.

use std::net::TcpListener;
use std::process::Command;
use std::sync::Mutex;

use tollgate_test_servers::resp::Client;
use tollgate_test_servers::{Resources, Result, Server, ServerSpec, program, server_command};

use super::{call, leaves_nothing, status};

/// A Redis without any configuration, whose first port another program takes just before it starts.
#[derive(Debug, Default)]
struct PortInUse {
    taken: Mutex<Vec<TcpListener>>,
}

impl ServerSpec for PortInUse {
    fn name(&self) -> &'static str {
        "port-in-use"
    }

    fn prepare(&self, resources: &Resources) -> Result<()> {
        let mut taken = self.taken.lock().unwrap();
        if taken.is_empty() {
            taken.push(TcpListener::bind(resources.addr())?);
        }
        Ok(())
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let port = resources.port().to_string();
        let mut command = server_command(program("redis-server", "redis-server")?)?;
        command.args(["--bind", "127.0.0.1", "--port", &port, "--save", ""]);
        Ok(command)
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        let mut client = Client::connect(resources.addr())?;
        client.set_timeout(std::time::Duration::from_millis(100))?;
        client.call(&["PING"])?.ok().map(drop)
    }
}

#[test]
fn a_port_in_use_is_replaced() {
    leaves_nothing(Box::new(Server::start(PortInUse::default()).unwrap()), |server| {
        assert_eq!(call(&mut Client::connect(server.addr()).unwrap(), "PING"), status("PONG"));
        assert!(!server.log().contains("Address already in use"), "a folder of its own per try");
    });
}

/// A program that ends at once.
#[derive(Debug)]
struct EndsAtOnce;

impl ServerSpec for EndsAtOnce {
    fn name(&self) -> &'static str {
        "ends-at-once"
    }

    fn command(&self, _resources: &Resources) -> Result<Command> {
        let mut command = server_command("/bin/sh")?;
        command.args(["-c", "echo it cannot run >&2; exit 3"]);
        Ok(command)
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        Client::connect(resources.addr())?.call(&["PING"])?.ok().map(drop)
    }
}

#[test]
fn a_program_that_ends_at_once_is_not_waited_for() {
    let error = Server::start(EndsAtOnce).unwrap_err().to_string();
    assert!(error.starts_with("ends-at-once does not answer: it ended: exit status: 3"), "{error}");
    assert!(error.ends_with("it cannot run"), "{error}");
}
