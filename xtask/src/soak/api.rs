//! A property-based client of the HTTP interface (schemathesis) against the release build of the
//! server: no failure, no response that the OpenAPI document does not describe, bounded memory.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tollgate_test_servers::{Error, Python, Result, Server};

use crate::run::{TaskResult, cargo, root, run, target};
use crate::served::Tollgate;

/// Every package by version and hash.
const REQUIREMENTS: &str = "crates/tollgate-server/tests/clients/schemathesis.txt";
/// The memory that the server may use: the table of the memory store, and the requests.
const MEMORY_MAX_KIB: u64 = 256 * 1024;

/// Runs it for `time`.
pub(super) fn soak(time: Duration) -> TaskResult {
    run(cargo(&["build", "--release", "--locked", "-p", "tollgate-cli"]))?;
    run_client(time).map_err(|error| error.to_string())
}

fn run_client(time: Duration) -> Result<()> {
    let schemathesis =
        Python::with("schemathesis", &std::fs::read_to_string(root().join(REQUIREMENTS))?)?;
    let server =
        Server::start(Tollgate { binary: target().join("release/tollgate"), config: None })?;
    let seed = RandomState::new().hash_one("soak") >> 32;
    println!("schemathesis: {} s, seed {seed}", time.as_secs());
    let mut client = schemathesis.program("schemathesis")?;
    client.arg("run").arg(format!("http://{}/openapi.json", server.addr()));
    client.args(["--checks", "all", "--no-color", "--generation-database", "none"]);
    // The stream of events has no end.
    client.args(["--exclude-path-regex", "^/v1/events$"]);
    // A schema counts characters; the bounds of keys and ids are bytes.
    client.args(["--exclude-checks", "positive_data_acceptance"]);
    client.args(["--seed", &seed.to_string(), "--max-time", &time.as_secs().to_string()]);
    run(client).map_err(Error::new)?;
    let peak = peak_kib(server.pid())?;
    let log = server.log();
    if !server.is_running() || log.contains("panicked") || peak > MEMORY_MAX_KIB {
        return Err(Error::new(format!("peak {peak} KiB; the log of the server:\n{log}")));
    }
    println!("schemathesis: no failure, no panic, {} MiB at most", peak / 1_024);
    Ok(())
}

/// The largest memory that a process has used.
fn peak_kib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    number.ok_or_else(|| Error::new("/proc has no VmHWM of the server"))
}
