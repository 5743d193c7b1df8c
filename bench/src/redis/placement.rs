//! A core for the server and another one for the client.
//!
//! Where the scheduler puts the two decides how long it takes to wake one from the other, by up to
//! three times, and it moves them between rounds. Calls of a single caller are little else: all of
//! them, and the PING that they are compared with, are measured on the same two cores.

use std::process::Command;
use std::thread::available_parallelism;

use tollgate_test_servers::Redis;

use crate::Result;

/// Until it is dropped, this process runs on the first core and the server on the second.
#[derive(Debug)]
pub(super) struct Apart {
    server: u32,
    cores: usize,
}

impl Apart {
    /// # Errors
    /// When there is one core only, or `taskset` cannot be run.
    pub(super) fn new(redis: &Redis) -> Result<Self> {
        let cores = available_parallelism().map_err(|error| error.to_string())?.get();
        if cores < 2 {
            return Err("a lone caller is measured on two cores; this machine has one".into());
        }
        let apart = Self { server: redis.pid(), cores };
        bind(apart.server, "1")?;
        bind(std::process::id(), "0")?;
        Ok(apart)
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let all = format!("0-{}", self.cores - 1);
        for process in [self.server, std::process::id()] {
            if let Err(error) = bind(process, &all) {
                eprintln!("{error}");
            }
        }
    }
}

/// Binds all threads of a process to these cores.
fn bind(process: u32, cores: &str) -> Result<()> {
    let mut command = Command::new("taskset");
    let done = command.args(["--all-tasks", "--cpu-list", "--pid", cores, &process.to_string()]);
    let output = done.output().map_err(|error| format!("taskset (util-linux): {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("taskset: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
