//! Real servers: each kind starts, answers and ends; the faults of the proxy.
#![cfg(target_os = "linux")]
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "in a test, a panic is the message"
)]
#![expect(clippy::print_stdout, reason = "a test that runs in a process of its own reports lines")]

mod dynamodb;
mod engines;
mod orphans;
mod postgres;
mod proxy;
mod redis;
mod redis_cluster;
mod redis_sentinel;
mod redis_tls;
mod server_spec;
mod workerd;

use std::path::Path;
use std::time::Duration;

use tollgate_test_servers::resp::{Client, Reply};
use tollgate_test_servers::wait::until_ok;
use tollgate_test_servers::{Error, Server};

/// How long a process that was killed may take to be gone.
const GONE: Duration = Duration::from_secs(20);

fn status(text: &str) -> Reply {
    Reply::Status(text.to_owned())
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.into())
}

/// Sends a command that must be answered; the error of the server is an answer.
fn call(client: &mut Client, command: &str) -> Reply {
    let words: Vec<&str> = command.split(' ').collect();
    client.call(&words).map_err(|error| format!("{command}: {error}")).unwrap()
}

/// Whether a process runs; one that has ended and waits for its parent does not.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn wait_until_gone(pid: u32) {
    until_ok(GONE, || match runs(pid) {
        true => Err(Error::new(format!("process {pid} still runs"))),
        false => Ok(()),
    })
    .unwrap();
}

/// Runs a check of a server, drops it, and checks that process and folder are removed.
fn leaves_nothing<S: std::ops::Deref<Target = Server>>(server: S, check: impl FnOnce(&S)) {
    let (pid, folder) = (server.pid(), server.resources().folder().to_owned());
    assert!(runs(pid) && folder.is_dir());
    check(&server);
    drop(server);
    assert!(!runs(pid), "the server still runs");
    assert!(!Path::exists(&folder), "{} is left", folder.display());
}
