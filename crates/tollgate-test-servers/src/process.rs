//! One process of a server: it never outlives the test process.
//!
//! `setpriv` makes the kernel kill the server when the test process ends, even by SIGKILL, and then
//! executes the server: the process id is the server's.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::error::{Error, Result};
use super::install;
use super::process_tree::{descendants, is_gone, state};
use super::spawner::spawn;
use super::wait::until_ok;

/// How long a process may take to react to a signal.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A program to run.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    user: Option<User>,
}

/// The user that runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The id of the user.
    pub uid: u32,
    /// The id of the group.
    pub gid: u32,
}

/// A signal to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// End at once.
    Kill,
    /// End in an orderly way.
    Terminate,
    /// Interrupt.
    Interrupt,
    /// Freeze.
    Stop,
    /// Continue after a freeze.
    Continue,
}

impl Signal {
    const fn name(self) -> &'static str {
        match self {
            Self::Kill => "KILL",
            Self::Terminate => "TERM",
            Self::Interrupt => "INT",
            Self::Stop => "STOP",
            Self::Continue => "CONT",
        }
    }
}

impl Launch {
    /// A program without arguments.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let program = program.into();
        Self { program, arguments: Vec::new(), environment: Vec::new(), user: None }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Runs it as another user, which only root may do.
    #[must_use]
    pub const fn user(mut self, user: User) -> Self {
        self.user = Some(user);
        self
    }

    fn command(&self, folder: &Path, log: &Path) -> Result<Command> {
        let mut command = Command::new(install::program("setpriv", "util-linux")?);
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program).args(&self.arguments);
        // Messages are searched for text, so they must be in English.
        command.env("LC_ALL", "C").envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = OpenOptions::new().create(true).append(true).open(log);
        let output = output.map_err(|error| Error::from(error).during(log.display()))?;
        command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
        // A group of its own: Ctrl-C ends the tests, whose end ends the servers.
        command.current_dir(folder).process_group(0);
        if let Some(User { uid, gid }) = self.user {
            command.uid(uid).gid(gid);
        }
        Ok(command)
    }
}

/// A process that was started here. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts it in a folder; its output is appended to `log`.
    pub(super) fn start(launch: &Launch, folder: &Path, log: &Path) -> Result<Self> {
        let child = spawn(launch.command(folder, log)?);
        let child = child.map_err(|error| Error::from(error).during(launch.program.display()))?;
        Ok(Self { child })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ends it, by SIGKILL if the signal is not enough; returns once its children have ended too.
    pub(super) fn end(&mut self, signal: Signal) -> Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        if signal != Signal::Kill {
            self.signal(signal, &[self.id()])?;
            // A frozen process must continue to react. One that is not frozen may have ended by
            // now.
            let _ = self.signal(Signal::Continue, &self.tree());
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
        self.signal(Signal::Stop, &[self.id()])?;
        let children = descendants(self.id());
        if !children.is_empty() {
            self.signal(Signal::Stop, &children)?;
        }
        let is_frozen = |id: &u32| is_gone(*id) || state(*id) == Some('T');
        let tree = self.tree();
        until_ok(SIGNAL_TIMEOUT, || match tree.iter().all(is_frozen) {
            true => Ok(()),
            false => Err(Error::new("it is not frozen")),
        })
    }

    pub(super) fn thaw(&mut self) -> Result<()> {
        self.signal(Signal::Continue, &self.tree())
    }

    /// Kills it, and its children with it: alone, they would finish what they are doing.
    fn kill(&mut self) -> Result<()> {
        let mut children = descendants(self.id());
        if !children.is_empty() {
            // A frozen parent does not fork, and does not release the ids of ended children.
            self.freeze()?;
            children = descendants(self.id());
            self.signal(Signal::Kill, &children)?;
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
    fn signal(&mut self, signal: Signal, to: &[u32]) -> Result<()> {
        if let Some(status) = self.ended()? {
            return Err(Error::new(format!("it has ended already: {}", describe(status))));
        }
        let name = signal.name();
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
        let _ = self.end(Signal::Kill);
    }
}

/// How a process ended, in words.
pub(super) fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("killed by signal {signal}"),
        None => status.to_string(),
    }
}
