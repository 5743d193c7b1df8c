//! One process of a server: it never outlives the test process.
//!
//! `setpriv` makes the kernel kill the server when the test process ends, even by SIGKILL, and then
//! executes the server: the process id is the server's.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::error::{AtPath, Error, Result};
use super::install;
use super::process_tree::{descendants, is_gone, state};
use super::spawner::spawn;
use super::wait::until_ok;

/// How long a process may take to react to a signal.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The signal that ends a process at once.
pub(super) const KILL: &str = "KILL";

/// A command that runs a server, which ends with this process at the latest.
///
/// # Errors
/// When `setpriv` is missing and cannot be installed.
pub fn server_command(program: impl AsRef<OsStr>) -> Result<Command> {
    let mut command = Command::new(install::program("setpriv", "util-linux")?);
    // Messages are searched for text, so they must be in English.
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).env("LC_ALL", "C");
    Ok(command)
}

/// A process that was started here. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts it in a folder; its output is appended to `log`.
    pub(super) fn start(mut command: Command, folder: &Path, log: &Path) -> Result<Self> {
        let output = OpenOptions::new().create(true).append(true).open(log).at(log)?;
        command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
        // A group of its own: Ctrl-C ends the tests, whose end ends the servers.
        command.current_dir(folder).process_group(0);
        Ok(Self { child: spawn(command)? })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ends it by a signal, such as `INT`, and by SIGKILL if that is not enough; returns once its
    /// children have ended too.
    pub(super) fn end(&mut self, signal: &str) -> Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        if signal != KILL {
            self.signal(signal, &[self.id()])?;
            // A frozen process must continue to react. One that is not frozen may have ended by
            // now.
            let _ = self.signal("CONT", &self.tree());
            let ended =
                until_ok(SIGNAL_TIMEOUT, || self.ended()?.ok_or_else(|| Error::new("still runs")));
            if ended.is_ok() {
                return Ok(());
            }
        }
        self.kill()
    }

    /// Freezes it and its children; returns once they are frozen.
    pub(super) fn freeze(&mut self) -> Result<()> {
        // The parent first: it may fork.
        self.signal("STOP", &[self.id()])?;
        let children = descendants(self.id());
        if !children.is_empty() {
            self.signal("STOP", &children)?;
        }
        let is_frozen = |id: &u32| is_gone(*id) || state(*id) == Some('T');
        let tree = self.tree();
        until_ok(SIGNAL_TIMEOUT, || match tree.iter().all(is_frozen) {
            true => Ok(()),
            false => Err(Error::new("it is not frozen")),
        })
    }

    pub(super) fn thaw(&mut self) -> Result<()> {
        self.signal("CONT", &self.tree())
    }

    /// Kills it, and its children with it: alone, they would finish what they are doing.
    fn kill(&mut self) -> Result<()> {
        let mut children = descendants(self.id());
        if !children.is_empty() {
            // A frozen parent does not fork, and does not release the ids of ended children.
            self.freeze()?;
            children = descendants(self.id());
            self.signal(KILL, &children)?;
        }
        self.child.kill()?;
        self.child.wait()?;
        until_ok(SIGNAL_TIMEOUT, || match children.iter().all(|child| is_gone(*child)) {
            true => Ok(()),
            false => Err(Error::new("its children still run")),
        })
    }

    fn tree(&self) -> Vec<u32> {
        let mut tree = descendants(self.id());
        tree.push(self.id());
        tree
    }

    /// Through the shell, which has `kill` built in: std has no safe call for it. The id stays
    /// valid until the process is waited for.
    fn signal(&mut self, name: &str, to: &[u32]) -> Result<()> {
        if let Some(status) = self.ended()? {
            return Err(Error::new(format!("it has ended already: {}", describe(status))));
        }
        let mut kill = Command::new("sh");
        kill.args(["-c", "kill -s \"$@\"", "sh", name]).args(to.iter().map(u32::to_string));
        let sent = kill.stdin(Stdio::null()).output()?;
        // A child that has just ended needs no signal.
        if sent.status.success() || to != [self.id()] {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&sent.stderr);
        Err(Error::new(format!("SIG{name} cannot be sent: {}", stderr.trim())))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.end(KILL);
    }
}

/// How a process ended, in words.
pub(super) fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("killed by signal {signal}"),
        None => status.to_string(),
    }
}
