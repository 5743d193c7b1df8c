//! The core that all servers share: a recipe becomes a running server.
//!
//! A kind of server is one file with one [`Recipe`]: what to run, and what to ask to see that it
//! answers. Ports, folders, logs, starting again when a port was taken, signals and cleaning up are
//! here, once.

use std::fmt::Debug;
use std::fs;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::{Error, Result};
use super::folder::Folder;
use super::port::Port;
use super::process::{Launch, Process, Signal, describe};
use super::wait::until_settled;

/// How long a server may take until it answers. Far more than any takes on an idle machine.
const START: Duration = Duration::from_secs(60);
/// Other programs can take a port between its reservation and the start of the server.
const ATTEMPTS: usize = 5;
const ADDRESS_TAKEN: &str = "Address already in use";
const LOG: &str = "server.log";
/// So many lines of the log are part of an error.
const TAIL_LINES: usize = 30;

/// How a kind of server is started, and how one sees that it answers.
pub trait Recipe: Debug + Send + Sync + 'static {
    /// Names folders and errors.
    fn name(&self) -> &'static str;

    /// How many ports it needs.
    fn ports(&self) -> usize {
        1
    }

    /// Writes files that it needs, once per folder and before the first start.
    ///
    /// # Errors
    /// When they cannot be written.
    fn prepare(&self, _place: &Place) -> Result<()> {
        Ok(())
    }

    /// What to run. It must stay in the foreground, and log to its standard output or error.
    ///
    /// # Errors
    /// When its program is missing and cannot be installed.
    fn launch(&self, place: &Place) -> Result<Launch>;

    /// Sends a real command, with a deadline of its own. That a port is open says little.
    ///
    /// # Errors
    /// When it does not answer yet.
    fn ask(&self, place: &Place) -> Result<()>;

    /// How it is told to end. What runs in memory alone need not be asked nicely.
    fn farewell(&self) -> Signal {
        Signal::Kill
    }
}

/// Where a server lives: the same ports and folder for all its lives.
#[derive(Debug)]
pub struct Place {
    ports: Vec<Port>,
    folder: Folder,
}

impl Place {
    fn new(recipe: &dyn Recipe) -> Result<Self> {
        let ports = (0..recipe.ports()).map(|_| Port::reserve()).collect::<Result<_>>()?;
        Ok(Self { ports, folder: Folder::new(recipe.name())? })
    }

    /// The first port; 0 if the recipe asked for none.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.nth_port(0)
    }

    /// One of the ports; 0 if the recipe asked for fewer.
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
        fs::write(&path, text).map_err(|error| Error::from(error).during(path.display()))?;
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
    recipe: Box<dyn Recipe>,
    process: Mutex<Process>,
    // Last, so that the folder is removed after the process has ended.
    place: Place,
}

impl Server {
    /// Starts a server; returns once it answers.
    ///
    /// # Errors
    /// When it cannot be installed or started, or does not answer in time: with the end of its log.
    pub fn start(recipe: impl Recipe) -> Result<Self> {
        let mut attempt = 1;
        loop {
            let place = Place::new(&recipe)?;
            recipe.prepare(&place)?;
            match run(&recipe, &place) {
                Ok(process) => {
                    let (recipe, process) = (Box::new(recipe), Mutex::new(process));
                    return Ok(Self { recipe, process, place });
                }
                Err(_) if attempt < ATTEMPTS && place.log().contains(ADDRESS_TAKEN) => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.place.addr()
    }

    /// The port at which it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.place.port()
    }

    /// Its folder and all its ports.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// The id of its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process().id()
    }

    /// Everything that it has logged, in all its lives.
    #[must_use]
    pub fn log(&self) -> String {
        self.place.log()
    }

    /// Whether its process runs; one that stands still does.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.process().ended(), Ok(None))
    }

    /// Ends it by SIGKILL, as a crash would. Its port stays reserved.
    ///
    /// # Errors
    /// When the process cannot be ended.
    pub fn kill(&self) -> Result<()> {
        self.end(Signal::Kill)
    }

    /// Ends it in its orderly way. Its port stays reserved.
    ///
    /// # Errors
    /// When the process cannot be ended.
    pub fn stop(&self) -> Result<()> {
        self.end(self.recipe.farewell())
    }

    /// Makes it stand still (SIGSTOP): connections stay open, and nothing answers.
    ///
    /// # Errors
    /// When it is not running.
    pub fn stop_answering(&self) -> Result<()> {
        self.process().freeze()
    }

    /// Lets it go on after [`Self::stop_answering`]; returns once it answers.
    ///
    /// # Errors
    /// When it is not running, or does not answer in time.
    pub fn go_on(&self) -> Result<()> {
        let mut process = self.process();
        process.thaw()?;
        await_answer(&*self.recipe, &self.place, &mut process)
    }

    /// Starts it again in the same folder and at the same ports, ending it by SIGKILL if it still
    /// runs; returns once it answers.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn restart(&self) -> Result<()> {
        let mut process = self.process();
        process.end(Signal::Kill)?;
        *process = run(&*self.recipe, &self.place)?;
        Ok(())
    }

    fn end(&self, signal: Signal) -> Result<()> {
        self.process().end(signal)
    }

    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whatever goes wrong, the process is killed when it is dropped itself.
        let _ = self.end(self.recipe.farewell());
    }
}

/// One life of a server, from its start to its first answer.
fn run(recipe: &dyn Recipe, place: &Place) -> Result<Process> {
    let launch = recipe.launch(place)?;
    let mut process = Process::start(&launch, place.folder(), &place.path(LOG))?;
    await_answer(recipe, place, &mut process)?;
    Ok(process)
}

fn await_answer(recipe: &dyn Recipe, place: &Place, process: &mut Process) -> Result<()> {
    let answered = until_settled(START, || {
        // Somebody else may answer at this port; an answer counts only from one who lives.
        let answer = recipe.ask(place);
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
        let log = place.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default();
        let name = recipe.name();
        Error::new(format!("{name} does not answer: {error}\nits log ends:\n{}", tail.join("\n")))
    })
}
