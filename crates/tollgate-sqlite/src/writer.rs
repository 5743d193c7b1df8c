//! The one thread of a process that writes: takes what waits, as much as there is, and decides it in
//! one round.
//!
//! A round takes whatever came while the one before it was written, and those who come back while it folds
//! what that one owes. While other processes hold the file, those who come later join the round, and those
//! who have waited too long leave it. A connection that has failed is replaced when somebody asks next.

use core::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;
use tollgate_core::store::TimeSource;
use tollgate_core::{Clock, Error, Micros, Result, SystemClock};

use crate::config::{Config, micros};
use crate::fault::{Fault, exhausted};
use crate::file;
use crate::job::{Job, Task};
use crate::pause::Pause;
use crate::queue::{Taker, Woken};
use crate::recent::Shared;
use crate::round::{self, Opened, Unwritten, begin, commit, undo};
use crate::sql::Sql;
use crate::sweep::{Found, Page, Place, Schedule};
use crate::turn::Turn;

/// Admissions in one round: bounds how long the file is held.
const ROUND_MAX: usize = 1_000;
/// How long a round waits for callers who have just been answered: less than a commit takes. Most come
/// back within it if they come back at all; without, half of them would always miss the round that the
/// other half begins.
const GATHER: Micros = 100;
/// What a process folds with its first round, so that many that live briefly do it as well.
pub(crate) const FIRST_OWED: usize = 16 << 10;

/// The thread.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) config: Config,
    pub(crate) clock: SystemClock,
    pub(crate) queue: Taker<Task>,
    pub(crate) turn: Turn,
    pub(crate) schedule: Schedule,
    /// The newest reading that decided something here.
    pub(crate) latest: Micros,
    pub(crate) recent: Shared,
    /// Callers who were there when the last round ended.
    pub(crate) regulars: usize,
    /// What the last round has added to the logs.
    pub(crate) owed: usize,
}

/// Whether the connection may be used on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Good,
    Broken,
}

/// A task, and when it was taken from the queue.
struct Taken {
    task: Task,
    since: Micros,
}

/// What a round does.
#[derive(Default)]
struct Batch {
    jobs: Vec<Job>,
    resets: Vec<(String, oneshot::Sender<Result<()>>)>,
    sweeps: Vec<(Place, Micros, oneshot::Sender<Result<Page>>)>,
}

impl Writer {
    /// Works until the store is closed or dropped.
    pub(crate) fn work(mut self, first: Connection) {
        let mut connection = Some(first);
        loop {
            // Nobody needs a new connection before somebody asks.
            if connection.is_none() && self.queue.wait(None) == Woken::End {
                return;
            }
            let opened = connection.take().map_or_else(|| file::again(&self.config), Ok);
            let served = opened.and_then(|connection| self.serve(&connection));
            match served {
                Ok(()) => {}
                Err(Fault::Busy) => self.refuse_waiting(&exhausted()),
                Err(Fault::Failed(error)) => self.refuse_waiting(&error.not_sent()),
            }
            if self.queue.wait(Some(Duration::ZERO)) == Woken::End {
                return;
            }
        }
    }

    fn refuse_waiting(&self, error: &Error) {
        let mut waiting = Vec::new();
        self.queue.take(&mut waiting, usize::MAX);
        waiting.into_iter().for_each(|task| task.refuse(error));
    }

    /// Serves with one connection until that fails or everything has ended.
    fn serve(&mut self, connection: &Connection) -> Result<(), Fault> {
        let mut sql = Sql::prepare(connection)?;
        loop {
            let rest = self.schedule.rest(self.clock.now());
            let link = match self.queue.wait(rest) {
                Woken::End => return Ok(()),
                Woken::Time => Link::Good,
                Woken::Work => self.round(connection, &mut sql),
            };
            if link == Link::Broken || self.sweep_if_due(connection, &mut sql) == Link::Broken {
                return Ok(());
            }
        }
    }

    /// One round, from the queue to the answers.
    fn round(&mut self, connection: &Connection, sql: &mut Sql<'_>) -> Link {
        let mut taken = Vec::new();
        let held = self.hold(connection, &mut taken);
        self.queue.progress().set_blocked(false);
        match held {
            Ok(true) => {}
            Ok(false) => return Link::Good,
            Err(fault) => {
                let error = fault.into_error().not_sent();
                taken.into_iter().for_each(|one: Taken| one.task.refuse(&error));
                return broken_unless(undo(connection));
            }
        }
        // While this works, those whom the last round has answered come back.
        let began = self.clock.now();
        let opened = round::open(sql, &self.recent, self.owed);
        let left = began.saturating_add(GATHER).saturating_sub(self.clock.now());
        let missing = self.regulars.saturating_sub(taken.len());
        self.queue.wait_for(missing, Some(Duration::from_micros(left)));
        self.join(&mut taken, began);
        // Whoever went away while the file was busy is not charged.
        let batch = Batch::of(taken);
        self.latest = batch.latest().unwrap_or(self.latest);
        let link = self.decide(connection, (sql, opened), batch.jobs, batch.resets);
        for (place, now, reply) in batch.sweeps {
            // Nobody is there to hear it if the caller has gone.
            let _ = reply.send(self.page(connection, sql, place, now).map_err(Fault::into_error));
        }
        link
    }

    fn decide(
        &mut self,
        connection: &Connection,
        (sql, opened): (&mut Sql<'_>, Result<Opened, Fault>),
        jobs: Vec<Job>,
        resets: Vec<(String, oneshot::Sender<Result<()>>)>,
    ) -> Link {
        let keys: Vec<&str> = resets.iter().map(|(key, _)| key.as_str()).collect();
        let written = opened.map_err(Unwritten::from).and_then(|opened| {
            round::run(&self.config, connection, (sql, &self.recent, opened), (&jobs, &keys))
        });
        let error = match written {
            Ok(written) => {
                self.owed = written.bytes;
                self.regulars = self.queue.len().saturating_add(jobs.len()).min(ROUND_MAX);
                for (job, outcome) in jobs.into_iter().zip(written.outcomes) {
                    job.answer(outcome);
                }
                resets.into_iter().for_each(|(_, reply)| drop(reply.send(Ok(()))));
                self.queue.progress().round_ended();
                return Link::Good;
            }
            Err(Unwritten::Undone(fault)) => fault.into_error().not_sent(),
            Err(Unwritten::Unknown(error)) => error,
        };
        jobs.into_iter().for_each(|job| job.answer(Err(error.clone())));
        resets.into_iter().for_each(|(_, reply)| drop(reply.send(Err(error.clone()))));
        undo(connection);
        // What failed in the middle of a transaction may be anything: start afresh.
        Link::Broken
    }

    /// Takes what waits, and the file for it; whether somebody is left to decide for.
    fn hold(&self, connection: &Connection, taken: &mut Vec<Taken>) -> Result<bool, Fault> {
        let patience = micros(self.config.lock_timeout);
        let (mut turn, mut pause) = (None, Pause::new());
        loop {
            let now = self.clock.now();
            self.join(taken, now);
            taken.retain(|one| one.task.is_waiting());
            let is_over = |one: &mut Taken| one.since.saturating_add(patience) < now;
            for late in taken.extract_if(.., is_over) {
                late.task.refuse(&exhausted());
            }
            if taken.is_empty() {
                return Ok(false);
            }
            let begun = match &turn {
                Some(_) => begin(connection),
                None => self.turn.take().and_then(|own| {
                    turn = Some(own);
                    begin(connection)
                }),
            };
            match begun {
                Ok(()) => return Ok(true),
                Err(Fault::Busy) => {
                    // Whoever runs out of time now waits for other processes, not for the disk.
                    self.queue.progress().set_blocked(true);
                    pause.wait();
                }
                Err(failed) => return Err(failed),
            }
        }
    }

    /// Adds what waits to a round that has not begun.
    fn join(&self, taken: &mut Vec<Taken>, since: Micros) {
        let mut more = Vec::new();
        self.queue.take(&mut more, ROUND_MAX.saturating_sub(taken.len()));
        taken.extend(more.into_iter().map(|task| Taken { task, since }));
    }

    fn sweep_if_due(&mut self, connection: &Connection, sql: &mut Sql<'_>) -> Link {
        let Some(place) = self.schedule.due(self.clock.now()) else {
            return Link::Good;
        };
        let page = self.page(connection, sql, place.clone(), self.latest);
        let (next, link) = match page {
            Ok(page) => (page.next, Link::Good),
            // What could not be done now is done later.
            Err(Fault::Busy) => (Some(place), Link::Good),
            Err(Fault::Failed(_)) => (None, Link::Broken),
        };
        self.schedule.done(next, self.clock.now());
        link
    }

    /// One page of a sweep. Busy when others write: a sweep waits for nobody.
    fn page(
        &self,
        connection: &Connection,
        sql: &mut Sql<'_>,
        place: Place,
        now: Micros,
    ) -> Result<Page, Fault> {
        let found = Found::look(connection, place, now)?;
        if found.is_idle() {
            return Ok(found.skip());
        }
        let turn = self.turn.take()?;
        begin(connection)?;
        drop(turn);
        let deleted = found.delete(connection, (sql, &mut self.recent.lock()), now);
        let page = deleted.and_then(|page| {
            if !page.has_changed {
                return Ok(page);
            }
            match commit(connection) {
                Ok(()) => Ok(page),
                Err(Unwritten::Undone(fault)) => Err(fault),
                Err(Unwritten::Unknown(error)) => Err(Fault::Failed(error)),
            }
        });
        undo(connection);
        page
    }
}

impl Batch {
    /// Sorts what was taken, without those who have gone away.
    fn of(taken: Vec<Taken>) -> Self {
        let mut batch = Self::default();
        for one in taken.into_iter().filter(|one| one.task.is_waiting()) {
            match one.task {
                Task::Admit(job) => batch.jobs.push(job),
                Task::Reset(key, reply) => batch.resets.push((key, reply)),
                Task::Sweep(place, now, reply) => batch.sweeps.push((place, now, reply)),
            }
        }
        batch
    }

    /// The newest reading of the jobs.
    fn latest(&self) -> Option<Micros> {
        let reading = |job: &Job| match job.at {
            TimeSource::Given(reading) => Some(reading),
            TimeSource::StoreClock => None,
        };
        self.jobs.iter().filter_map(reading).max()
    }
}

fn broken_unless(is_good: bool) -> Link {
    if is_good { Link::Good } else { Link::Broken }
}
