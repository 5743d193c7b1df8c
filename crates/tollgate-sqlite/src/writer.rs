//! The thread that writes: decides all admissions that wait in one round.
//!
//! A round takes the admissions that arrived during the previous one. While it refreshes the index
//! and compacts, callers that were just answered send their next admissions, and those join the
//! round. If more wait than a round decides in a short time, policies and keys share its places,
//! and the others wait for the next one. While another process holds the write lock, new admissions
//! join the round, and admissions that have waited for the lock timeout leave it. A connection that
//! has failed is replaced at the next call.

use core::time::Duration;
use std::sync::Arc;

use rusqlite::Connection;
use tollgate_core::combine::{Wakeup, Worker};
use tollgate_core::store::Retries;
use tollgate_core::store::round::IdShares;
use tollgate_core::{Clock, Code, Micros, Result, SystemClock};

use crate::backoff::LockBackoff;
use crate::config::{Config, micros};
use crate::error::{QueryError, conflict_exhausted};
use crate::file::DatabaseFile;
use crate::job::{Callers, Done, Job, Task};
use crate::log_index::SharedLogIndex;
use crate::round::{self, OpenRound, RoundError, Work, begin, commit, roll_back};
use crate::round_size::RoundSize;
use crate::sql::Sql;
use crate::sweep::{ScannedPage, SweepPosition, SweepSchedule, SweptPage};
use crate::write_fairness_lock::WriteFairnessLock;

/// How long a round waits for callers that were just answered; less than a commit takes. Most of
/// them send their next admission within it, if at all. Without the wait, half of them would always
/// miss the round that the other half begins.
const REJOIN_WAIT: Micros = 100;
/// What the first round compacts as if it had been appended: many processes that live briefly also
/// compact.
const FIRST_COMPACTION: usize = 16 << 10;

/// The thread.
#[derive(Debug)]
pub(crate) struct Writer {
    config: Config,
    clock: SystemClock,
    file: Arc<DatabaseFile>,
    worker: Worker<Job, Result<Done>>,
    schedule: SweepSchedule,
    /// The newest reading of a caller.
    latest: Micros,
    index: SharedLogIndex,
    ids: IdShares,
    size: RoundSize,
    /// The number of callers when the last round ended.
    last_callers: usize,
    /// How much the last round appended to the log.
    appended: usize,
    /// When the round began to read, after the write lock.
    began: Micros,
}

/// A connection and what belongs to it.
struct Session<'c> {
    connection: &'c Connection,
    sql: Sql<'c>,
    fairness_lock: WriteFairnessLock,
}

/// Whether a connection can still be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Usable,
    Broken,
}

impl Writer {
    pub(crate) fn new(
        config: Config,
        clock: SystemClock,
        file: Arc<DatabaseFile>,
        worker: Worker<Job, Result<Done>>,
        index: SharedLogIndex,
    ) -> Self {
        Self {
            schedule: SweepSchedule::new(&config, clock.now()),
            ids: IdShares::new(usize::try_from(config.max_request_ids).unwrap_or(usize::MAX)),
            size: RoundSize::first(),
            config,
            clock,
            file,
            worker,
            latest: 0,
            index,
            last_callers: 0,
            appended: FIRST_COMPACTION,
            began: 0,
        }
    }

    /// Runs until the store is closed or dropped.
    pub(crate) fn run(mut self) {
        // A connection is opened only when there is work or a sweep is due.
        while let Some(mut first) = self.next() {
            let file = Arc::clone(&self.file);
            let served = file.open_to_write().and_then(|connection| {
                let fairness_lock = WriteFairnessLock::open(&self.config.fairness_lock_path())?;
                let sql = Sql::prepare(&connection)?;
                let session = Session { connection: &connection, sql, fairness_lock };
                self.serve(session, first.take());
                Ok(())
            });
            if let Err(error) = served {
                self.schedule.advance(None, self.clock.now());
                let error = error.into_error().not_sent();
                first.into_iter().for_each(|mut callers| callers.fail(&error));
            }
        }
    }

    /// Waits for a round, or for the next sweep. `None` when the store is closed.
    fn next(&self) -> Option<Option<Callers>> {
        match self.worker.next_round_blocking(self.schedule.wait(self.clock.now())) {
            Wakeup::Round(callers) => Some(Some(callers)),
            Wakeup::Timeout => Some(None),
            Wakeup::Closed => None,
        }
    }

    /// Serves over one connection until it breaks or the store is closed.
    fn serve(&mut self, mut session: Session<'_>, first: Option<Callers>) {
        // A file that is full breaks every round: what makes room for the next comes before it. If
        // that fails, so does the round, which reports it.
        self.sweep_if_due(&mut session);
        let mut next = Some(first);
        while let Some(callers) = next {
            let state = callers.map(|callers| self.round(&mut session, callers));
            if state == Some(ConnectionState::Broken)
                || self.sweep_if_due(&mut session) == ConnectionState::Broken
            {
                return;
            }
            next = self.next();
        }
    }

    /// One round, from the write lock to the answers.
    fn round(&mut self, session: &mut Session<'_>, mut callers: Callers) -> ConnectionState {
        match self.lock(session, &mut callers) {
            Ok(true) => {}
            Ok(false) => return ConnectionState::Usable,
            Err(error) => {
                callers.fail(&error.into_error().not_sent());
                let is_usable = roll_back(session.connection);
                return if is_usable { ConnectionState::Usable } else { ConnectionState::Broken };
            }
        }
        // Meanwhile the callers of the last round send their next admissions.
        let began = self.clock.now();
        self.began = began;
        let opened = round::open(&mut session.sql, &self.index, self.appended);
        let left = began.saturating_add(REJOIN_WAIT).saturating_sub(self.clock.now());
        let missing = self.last_callers.saturating_sub(callers.len());
        self.worker.wait_for(missing, Duration::from_micros(left));
        callers.take_late_arrivals();
        callers.drop_cancelled();
        callers.keep_fairly(self.size.places(), |job| job.owner);
        // Callers that were cancelled while another process held the write lock are not charged.
        callers.mark_sent();
        self.decide(session, opened, callers)
    }

    fn decide(
        &mut self,
        session: &mut Session<'_>,
        opened: Result<OpenRound, QueryError>,
        mut callers: Callers,
    ) -> ConnectionState {
        let (connection, sql) = (session.connection, &mut session.sql);
        let work = Work::of(callers.jobs());
        self.latest = work.latest().unwrap_or(self.latest);
        let written = opened.map_err(RoundError::from).and_then(|opened| {
            let ids = (&self.config, &self.ids);
            round::run(connection, (sql, &self.index, opened), &work, ids, &self.clock)
        });
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                let error = match error {
                    RoundError::NotCommitted(error) => error.into_error().not_sent(),
                    RoundError::OutcomeUnknown(error) => error,
                };
                if error.code() == Code::StoreFull {
                    self.schedule.make_room(self.clock.now());
                }
                callers.fail(&error);
                roll_back(connection);
                // A connection that failed within a transaction is replaced.
                return ConnectionState::Broken;
            }
        };
        self.file.note_forgotten_ids(written.forgotten);
        let (decided_at, end) = (written.decided_at, self.clock.now());
        let deciding = decided_at.saturating_sub(self.began);
        self.size = RoundSize::after(callers.len(), deciding, end.saturating_sub(decided_at));
        self.appended = written.bytes;
        self.last_callers = self.worker.waiting().saturating_add(callers.len());
        let (mut outcomes, mut is_served) = (written.outcomes.into_iter(), false);
        for (index, job) in callers.jobs().enumerate() {
            match &job.task {
                Task::Admit(..) => {
                    if let Some(outcome) = outcomes.next() {
                        is_served |= callers.answer(index, outcome.map(Done::Decided));
                    }
                }
                Task::Reset(_) => {
                    is_served |= callers.answer(index, Ok(Done::Reset));
                }
                Task::Sweep(..) => {}
            }
        }
        callers.record_round(self.clock.now().saturating_sub(self.began), is_served);
        // A disk that is too slow for all callers has served none of them.
        if is_served {
            callers.count_answered();
        }
        for (index, job) in callers.jobs().enumerate() {
            if let Task::Sweep(position, now) = &job.task {
                let page = self.sweep_page(session, position.clone(), *now);
                callers.answer(index, page.map(Done::Swept).map_err(QueryError::into_error));
            }
        }
        ConnectionState::Usable
    }

    /// Takes the write lock. Returns false if no caller waits any more.
    fn lock(&self, session: &Session<'_>, callers: &mut Callers) -> Result<bool, QueryError> {
        let timeout = micros(self.config.lock_timeout);
        let (mut fairness_guard, mut backoff) = (None, LockBackoff::new());
        loop {
            let begun = match &fairness_guard {
                Some(_) => begin(session.connection),
                None => session.fairness_lock.try_lock().and_then(|guard| {
                    fairness_guard = Some(guard);
                    begin(session.connection)
                }),
            };
            match begun {
                Ok(()) => return Ok(true),
                Err(QueryError::Busy) => {}
                Err(error) => return Err(error),
            }
            callers.take_late_arrivals();
            // A caller whose deadline expires now waits for another process, not for the disk.
            callers.lost_race(&Retries::default().max_retries(u32::MAX));
            let now = self.clock.now();
            let has_timed_out = |job: &Job| job.since.saturating_add(timeout) < now;
            callers.fail_where(has_timed_out, &conflict_exhausted());
            if callers.is_empty() {
                return Ok(false);
            }
            backoff.wait();
        }
    }

    fn sweep_if_due(&mut self, session: &mut Session<'_>) -> ConnectionState {
        let Some(position) = self.schedule.due(self.clock.now()) else {
            return ConnectionState::Usable;
        };
        let page = self.sweep_page(session, position.clone(), self.latest);
        let (next, state) = match page {
            Ok(page) => (page.next, ConnectionState::Usable),
            // The same page is swept after the pause.
            Err(QueryError::Busy) => (Some(position), ConnectionState::Usable),
            Err(QueryError::Failed(_)) => (None, ConnectionState::Broken),
        };
        self.schedule.advance(next, self.clock.now());
        state
    }

    /// One page of a sweep. Fails with `Busy` while another process writes: a sweep does not wait.
    fn sweep_page(
        &self,
        session: &mut Session<'_>,
        position: SweepPosition,
        now: Micros,
    ) -> Result<SweptPage, QueryError> {
        let connection = session.connection;
        let scanned = ScannedPage::scan(connection, position, now)?;
        if !scanned.needs_transaction() {
            return Ok(scanned.skip());
        }
        let fairness_guard = session.fairness_lock.try_lock()?;
        begin(connection)?;
        drop(fairness_guard);
        let index = &mut self.index.lock();
        let deleted = scanned.delete(connection, (&mut session.sql, index), now);
        let page = deleted.and_then(|page| {
            if !page.has_changed {
                return Ok(page);
            }
            match commit(connection) {
                Ok(()) => Ok(page),
                Err(RoundError::NotCommitted(error)) => Err(error),
                Err(RoundError::OutcomeUnknown(error)) => Err(QueryError::Failed(error)),
            }
        });
        roll_back(connection);
        page
    }
}
