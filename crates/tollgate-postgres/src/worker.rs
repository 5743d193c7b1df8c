//! A worker task: decides all admissions that wait for it in one round.
//!
//! Each key belongs to one worker. Callers of one process therefore never wait for each other's row
//! locks, and a hot key has one round at a time. There is no timer: a round takes the admissions
//! that arrived during the previous one. While a round is written, the next one is read behind it
//! on the same connection, so that the server does not idle for a network round trip.
//!
//! A round waits for no row lock. Callers whose rows others have locked wait apart
//! ([`LockedRows`]), so that they do not hold up the other keys of the worker.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;

use tokio::time::sleep;
use tollgate_core::combine;
use tollgate_core::store::Evidence;
use tollgate_core::{Code, Result};

use crate::connection::{Connection, Shared};
use crate::job::Job;
use crate::locked_rows::LockedRows;
use crate::round::{Awaited, Callers, Closed, OpenRound, Opened, Trip, abandon, close, open};

/// How many callers a round decides. Policies and keys share its places if more wait.
const PLACES: usize = 1_000;

pub(crate) type Worker = combine::Worker<Job, Result<Evidence>>;

/// Decides until the store is closed or dropped.
pub(crate) async fn run(shared: Arc<Shared>, worker: Worker) {
    let locked = LockedRows::default();
    let rounds = async {
        let mut connection = None;
        while let Some(round) = worker.next_round().await {
            connection = Rounds::new(&shared, (&worker, &locked), connection).run(round).await;
        }
        locked.close();
    };
    tokio::join!(rounds, locked.run(&shared));
}

/// Runs rounds until the queue is empty.
struct Rounds<'a> {
    shared: &'a Shared,
    worker: &'a Worker,
    /// Where callers wait whose rows others have locked.
    locked: &'a LockedRows,
    /// The connection, if there is one.
    connection: Option<Connection>,
    /// Whether the connection was idle before, so that the server may have closed it.
    was_idle: bool,
}

/// The next step of a worker.
#[derive(Default)]
struct Next {
    /// The round to write.
    open: Option<OpenRound>,
    /// The round to read.
    waiting: Option<Callers>,
}

impl<'a> Rounds<'a> {
    fn new(
        shared: &'a Shared,
        (worker, locked): (&'a Worker, &'a LockedRows),
        connection: Option<Connection>,
    ) -> Self {
        let connection = connection.filter(Connection::is_open);
        Self { shared, worker, locked, was_idle: connection.is_some(), connection }
    }

    /// Returns the connection for the next call.
    async fn run(mut self, first: Callers) -> Option<Connection> {
        let mut next = Next { open: None, waiting: Some(first) };
        loop {
            if let Some(waiting) = &mut next.waiting {
                waiting.drop_cancelled();
                waiting.take_late_arrivals();
                self.locked.take_over(waiting);
                waiting.keep_fairly(PLACES, |job| job.owner);
            }
            next.waiting = next.waiting.filter(|waiting| !waiting.is_empty());
            next.waiting = next.waiting.or_else(|| self.next_round());
            if next.open.is_none() && next.waiting.is_none() {
                return self.connection;
            }
            let connection = match self.connection.take() {
                Some(connection) => connection,
                None => match self.shared.connect().await {
                    Ok(connection) => connection,
                    Err(error) => {
                        next.waiting.into_iter().for_each(|mut waiting| waiting.fail(&error));
                        return None;
                    }
                },
            };
            next = self.step(connection, next).await;
        }
    }

    /// Writes one round and reads the next. Keeps the connection if it can still be used.
    async fn step(&mut self, connection: Connection, next: Next) -> Next {
        let trips = u64::from(next.open.is_some()) + u64::from(next.waiting.is_some());
        self.shared.round_trips.fetch_add(trips, Ordering::Relaxed);
        let trip = Trip { shared: self.shared, connection: &connection };
        let closing = async {
            match next.open {
                Some(round) => close(trip, round).await,
                None => Closed::Answered,
            }
        };
        let opening = async {
            match next.waiting {
                Some(callers) => Some(open(trip, callers, &Awaited::default()).await),
                None => None,
            }
        };
        let (closed, opened) = tokio::join!(biased; closing, opening);
        match (closed, opened) {
            (Closed::Answered, None) => self.keep(connection, None),
            (Closed::Answered, Some(Opened::Ready(round, locked))) => {
                self.locked.add(locked);
                self.keep(connection, Some(round))
            }
            (Closed::Answered, Some(Opened::Conflict(mut callers))) => {
                let losses = callers.lost_race(&self.shared.config.retries);
                self.after_conflict(connection, true, callers, losses).await
            }
            (Closed::Conflict(mut callers), opened) => {
                let losses = callers.lost_race(&self.shared.config.retries);
                // A first round trip that failed also leaves a transaction open.
                let is_open = opened.is_some();
                // Later callers keep their place behind those that are retried.
                if let Some(later) = self.retried(opened) {
                    callers.append(later);
                }
                self.after_conflict(connection, is_open, callers, losses).await
            }
            (Closed::Broken, opened) | (Closed::Answered, opened) => {
                // The server rolls the open transaction back when the connection is closed.
                drop(connection);
                Next { open: None, waiting: self.retried(opened) }
            }
        }
    }

    /// A round of those that wait, without callers of locked rows.
    fn next_round(&self) -> Option<Callers> {
        let mut round = self.worker.try_next_round()?;
        self.locked.take_over(&mut round);
        round.keep_fairly(PLACES, |job| job.owner);
        (!round.is_empty()).then_some(round)
    }

    fn keep(&mut self, connection: Connection, open: Option<OpenRound>) -> Next {
        self.connection = Some(connection);
        self.was_idle = true;
        Next { open, waiting: None }
    }

    /// Waits before callers are retried that have lost this many races.
    async fn after_conflict(
        &mut self,
        connection: Connection,
        is_open: bool,
        callers: Callers,
        losses: u32,
    ) -> Next {
        let trip = Trip { shared: self.shared, connection: &connection };
        if !is_open || abandon(trip).await {
            self.connection = Some(connection);
        }
        if losses > 0 {
            let wait = self.shared.config.retries.wait(losses, self.shared.jitter.next());
            sleep(Duration::from_micros(wait)).await;
        }
        Next { open: None, waiting: Some(callers) }
    }

    /// The callers of a round that was not written, if they may be retried.
    fn retried(&mut self, opened: Option<Opened>) -> Option<Callers> {
        match opened {
            None | Some(Opened::Rejected) => None,
            Some(Opened::Ready(round, locked)) => {
                let mut callers = round.into_callers();
                callers.append(locked);
                Some(callers)
            }
            Some(Opened::Conflict(callers)) => Some(callers),
            Some(Opened::Failed(mut callers, error)) => {
                // The server may have closed an idle connection: retry once over a new one.
                if core::mem::take(&mut self.was_idle) && error.code() != Code::Timeout {
                    return Some(callers);
                }
                callers.fail(&error);
                None
            }
        }
    }
}
