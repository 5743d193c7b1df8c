//! The one thread that starts servers.
//!
//! The kernel ends a server when the thread that started it ends, not only the process: a server
//! that is started by the thread of one test and shared with others would end with that test. So
//! all of them are started by a thread that runs as long as the process.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

struct Job {
    command: Command,
    started: Sender<io::Result<Child>>,
}

static SPAWNER: LazyLock<Mutex<Sender<Job>>> = LazyLock::new(|| {
    let (jobs, work) = channel();
    thread::spawn(move || spawn_commands(&work));
    Mutex::new(jobs)
});

/// Starts a program from the thread that runs as long as the process.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let (started, child) = channel();
    let sent = {
        let jobs = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.send(Job { command, started })
    };
    let gone = || io::Error::other("the thread that starts servers has ended");
    sent.map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

fn spawn_commands(work: &Receiver<Job>) {
    // The sender is in a static: this ends with the process.
    for mut job in work {
        let child = job.command.spawn();
        let _ = job.started.send(child);
    }
}
