//! The part that all servers share: it starts a server from its [`ServerSpec`].
//!
//! A kind of server is one file with one spec: the program to run, and the command that shows that
//! it answers. Ports, folders, logs, new attempts when a port is in use, signals and removal are
//! here.

use std::fmt::Debug;
use std::fs;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::{AtPath, Error, Result};
use super::folder::Folder;
use super::port::Port;
use super::process::{KILL, Process, describe};
use super::wait::until_settled;

/// The longest time from the start of a server to its first answer.
const START: Duration = Duration::from_secs(60);
/// Other programs can take a port between its reservation and the start of the server.
const ATTEMPTS: usize = 5;
const ADDRESS_TAKEN: &str = "Address already in use";
const LOG: &str = "server.log";
/// The lines of the log that are part of an error.
const TAIL_LINES: usize = 30;

/// A kind of server: how it is started, and how it is probed.
pub trait ServerSpec: Debug + Send + Sync + 'static {
    /// The name in folders and errors.
    fn name(&self) -> &'static str;

    /// How many ports it needs.
    fn ports(&self) -> usize {
        1
    }

    /// Writes its files, once and before the first start.
    ///
    /// # Errors
    /// When they cannot be written.
    fn prepare(&self, _resources: &Resources) -> Result<()> {
        Ok(())
    }

    /// The command to run, made by [`server_command`](super::server_command). It must stay in the
    /// foreground, and log to its standard output or error.
    ///
    /// # Errors
    /// When its program is missing and cannot be installed.
    fn command(&self, resources: &Resources) -> Result<Command>;

    /// Sends a real command, with a timeout. An open port does not prove that a server is ready.
    ///
    /// # Errors
    /// When it does not answer yet.
    fn probe(&self, resources: &Resources) -> Result<()>;

    /// The signal that stops it in an orderly way, such as `INT`. A server without data to save may
    /// be killed.
    fn stop_signal(&self) -> &'static str {
        KILL
    }
}

/// The ports and the folder of a server, which a restart keeps.
#[derive(Debug)]
pub struct Resources {
    ports: Vec<Port>,
    folder: Folder,
}

impl Resources {
    fn new(spec: &dyn ServerSpec) -> Result<Self> {
        let ports = (0..spec.ports()).map(|_| Port::reserve()).collect::<Result<_>>()?;
        Ok(Self { ports, folder: Folder::new(spec.name())? })
    }

    /// The first port; 0 if the spec needs none.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.nth_port(0)
    }

    /// One of the ports; 0 if the spec needs fewer.
    #[must_use]
    pub fn nth_port(&self, nth: usize) -> u16 {
        self.ports.get(nth).map_or(0, Port::number)
    }

    /// The address of the first port.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port()))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder().join(name)
    }

    /// Writes a file into the folder.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::write(&path, text).at(&path)?;
        Ok(path)
    }

    fn log(&self) -> String {
        let bytes = fs::read(self.path(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A running server. Dropping it ends the server and removes its folder; so does the end of this
/// process, however it ends.
#[derive(Debug)]
pub struct Server {
    spec: Box<dyn ServerSpec>,
    process: Mutex<Process>,
    // Last, so that the folder is removed after the process has ended.
    resources: Resources,
}

impl Server {
    /// Starts a server; returns once it answers.
    ///
    /// # Errors
    /// When it cannot be installed or started, or does not answer in time: with the end of its log.
    pub fn start(spec: impl ServerSpec) -> Result<Self> {
        let mut attempt = 1;
        loop {
            let resources = Resources::new(&spec)?;
            spec.prepare(&resources)?;
            match run(&spec, &resources) {
                Ok(process) => {
                    let (spec, process) = (Box::new(spec), Mutex::new(process));
                    return Ok(Self { spec, process, resources });
                }
                Err(_) if attempt < ATTEMPTS && resources.log().contains(ADDRESS_TAKEN) => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.resources.addr()
    }

    /// The port at which it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.resources.port()
    }

    /// Its folder and all its ports.
    #[must_use]
    pub const fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The id of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// Its log since the first start.
    #[must_use]
    pub fn log(&self) -> String {
        self.resources.log()
    }

    /// Whether its process runs; a frozen one does.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.process().ended(), Ok(None))
    }

    /// Ends it by SIGKILL, as a crash would. Its port stays reserved.
    ///
    /// # Errors
    /// When the process cannot be ended.
    pub fn kill(&self) -> Result<()> {
        self.end(KILL)
    }

    /// Stops it in an orderly way. Its port stays reserved.
    ///
    /// # Errors
    /// When the process cannot be ended.
    pub fn stop(&self) -> Result<()> {
        self.end(self.spec.stop_signal())
    }

    /// Freezes it (SIGSTOP): connections stay open, and nothing answers.
    ///
    /// # Errors
    /// When it is not running.
    pub fn stop_answering(&self) -> Result<()> {
        self.process().freeze()
    }

    /// Continues it after [`Self::stop_answering`]; returns once it answers.
    ///
    /// # Errors
    /// When it is not running, or does not answer in time.
    pub fn go_on(&self) -> Result<()> {
        let mut process = self.process();
        process.thaw()?;
        await_answer(&*self.spec, &self.resources, &mut process)
    }

    /// Starts it again in the same folder and at the same ports, ending it by SIGKILL if it still
    /// runs; returns once it answers.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart(&self) -> Result<()> {
        let mut process = self.process();
        process.end(KILL)?;
        *process = run(&*self.spec, &self.resources)?;
        Ok(())
    }

    fn end(&self, signal: &str) -> Result<()> {
        self.process().end(signal)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If this fails, dropping the process kills it.
        let _ = self.end(self.spec.stop_signal());
    }
}

/// Starts the process, and waits for its first answer.
fn run(spec: &dyn ServerSpec, resources: &Resources) -> Result<Process> {
    let (command, log) = (spec.command(resources)?, resources.path(LOG));
    let mut process = Process::start(command, resources.folder(), &log)?;
    await_answer(spec, resources, &mut process)?;
    Ok(process)
}

fn await_answer(spec: &dyn ServerSpec, resources: &Resources, process: &mut Process) -> Result<()> {
    let answered = until_settled(START, || {
        // Another program may answer at this port, so the process must run as well.
        let answer = spec.probe(resources);
        match (process.ended(), answer) {
            (Err(error), _) => ControlFlow::Break(Err(error)),
            (Ok(Some(status)), _) => {
                ControlFlow::Break(Err(Error::new(format!("it ended: {}", describe(status)))))
            }
            (Ok(None), Ok(())) => ControlFlow::Break(Ok(())),
            (Ok(None), Err(error)) => ControlFlow::Continue(error),
        }
    });
    answered.map_err(|error| {
        let log = resources.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default();
        let name = spec.name();
        Error::new(format!("{name} does not answer: {error}\nits log ends:\n{}", tail.join("\n")))
    })
}
