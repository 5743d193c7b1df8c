//! One process of a server: how it is started so that it cannot outlive us, and how it is told to
//! stop.
//!
//! `setpriv` asks the kernel to kill the server when we end, even by SIGKILL, and then becomes the
//! server: the process id is the server's.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::error::{Error, Result};
use super::family::{descendants, is_gone, state};
use super::install;
use super::spawner::spawn;
use super::wait::until_ok;

/// How long a process may take to obey a signal.
const OBEY: Duration = Duration::from_secs(10);

/// What to run.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    user: Option<User>,
}

/// Who runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The id of the user.
    pub uid: u32,
    /// The id of the group.
    pub gid: u32,
}

/// What a process can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// End now, without a chance to object.
    Kill,
    /// End in an orderly way.
    Terminate,
    /// Interrupt.
    Interrupt,
    /// Stand still.
    Stop,
    /// Go on after standing still.
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
        // Messages are searched for words, so they must be in English.
        command.env("LC_ALL", "C").envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = OpenOptions::new().create(true).append(true).open(log);
        let output = output.map_err(|error| Error::from(error).during(log.display()))?;
        command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
        // A group of its own: Ctrl-C is for the tests, which take their servers with them.
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
    /// Starts it in a folder; what it prints is appended to `log`.
    pub(super) fn start(launch: &Launch, folder: &Path, log: &Path) -> Result<Self> {
        let child = spawn(launch.command(folder, log)?);
        let child = child.map_err(|error| Error::from(error).during(launch.program.display()))?;
        Ok(Self { child })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Makes it end, by force if it does not obey; returns once its children are gone too.
    pub(super) fn end(&mut self, signal: Signal) -> Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        if signal != Signal::Kill {
            self.signal(signal, &[self.id()])?;
            // One that stands still hears nothing else. One that does not may have ended by now.
            let _ = self.signal(Signal::Continue, &self.family());
            let obeyed = until_ok(OBEY, || self.ended()?.ok_or_else(|| Error::new("still runs")));
            if obeyed.is_ok() {
                return Ok(());
            }
        }
        self.kill()
    }

    /// Makes it and its children stand still; returns once they do.
    pub(super) fn freeze(&mut self) -> Result<()> {
        // First the one that makes others.
        self.signal(Signal::Stop, &[self.id()])?;
        let children = descendants(self.id());
        if !children.is_empty() {
            self.signal(Signal::Stop, &children)?;
        }
        let stands = |id: &u32| is_gone(*id) || state(*id) == Some('T');
        let family = self.family();
        until_ok(OBEY, || match family.iter().all(stands) {
            true => Ok(()),
            false => Err(Error::new("it does not stand still")),
        })
    }

    pub(super) fn thaw(&mut self) -> Result<()> {
        self.signal(Signal::Continue, &self.family())
    }

    /// Kills it, and its children with it: alone, they would finish what they are doing.
    fn kill(&mut self) -> Result<()> {
        let mut children = descendants(self.id());
        if !children.is_empty() {
            // While it stands still it makes no more, and the ids of those that end stay theirs.
            self.freeze()?;
            children = descendants(self.id());
            self.signal(Signal::Kill, &children)?;
        }
        self.child.kill()?;
        self.child.wait()?;
        until_ok(OBEY, || match children.iter().all(|child| is_gone(*child)) {
            true => Ok(()),
            false => Err(Error::new("its children still run")),
        })
    }

    fn family(&self) -> Vec<u32> {
        let mut family = descendants(self.id());
        family.push(self.id());
        family
    }

    /// Through the shell, which has `kill` built in: there is no safe call for it in std. The id is
    /// ours as long as nobody has waited for the process.
    fn signal(&mut self, signal: Signal, to: &[u32]) -> Result<()> {
        if let Some(status) = self.ended()? {
            return Err(Error::new(format!("it has ended already: {}", describe(status))));
        }
        let name = signal.name();
        let mut kill = Command::new("sh");
        kill.args(["-c", "kill -s \"$@\"", "sh", name]).args(to.iter().map(u32::to_string));
        let sent = kill.stdin(Stdio::null()).output()?;
        // A child that has just ended cannot be told anything, and need not be.
        if sent.status.success() || to != [self.id()] {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&sent.stderr);
        Err(Error::new(format!("SIG{name} cannot be sent: {}", said.trim())))
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
