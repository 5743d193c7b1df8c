//! Callers whose rows others have locked: they wait on a connection of their own.
//!
//! A worker skips rows, of keys and of request ids, that another session has locked and hands
//! their callers over to this second loop, which waits for the rows of one caller at a time and
//! skips the rows of the others. So a row that stays locked holds up its own callers, and for a
//! moment those of other locked rows. As long as a key has callers here, new callers of the key
//! join them: callers of one key are decided in order. The connection is made when it is needed
//! for the first time.

use core::time::Duration;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::connection::{Connection, Shared};
use crate::round::{
    Awaited, Callers, Closed, Opened, Trip, abandon, close, lock_slice, lock_timeout, open,
    split_locked,
};

/// The callers of locked rows of one worker.
#[derive(Debug, Default)]
pub(crate) struct LockedRows {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    arrived: Vec<Callers>,
    /// The keys of all callers here: those that arrived, and those that are being decided.
    keys: HashSet<String>,
    is_closed: bool,
}

/// Whose turn it is.
#[derive(Debug, Default)]
struct Turns {
    connection: Option<Connection>,
    /// Whether the next round waits for no row.
    skips: bool,
    /// How long rows were waited for in vain since a caller lost a race for that.
    waited: Duration,
}

impl LockedRows {
    /// Takes the callers of a round that have to wait behind callers here.
    pub(crate) fn take_over(&self, round: &mut Callers) {
        let state = self.lock();
        if state.keys.is_empty() {
            return;
        }
        let behind = split_locked(round, state.keys.clone());
        drop(state);
        self.add(behind);
    }

    /// Adds callers of locked rows.
    pub(crate) fn add(&self, callers: Callers) {
        if callers.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.keys.extend(callers.jobs().flat_map(|job| job.keys.iter().cloned()));
        state.arrived.push(callers);
        drop(state);
        self.changed.notify_one();
    }

    /// No more callers will come. Those that wait are still served.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Decides until it is closed and no caller waits.
    pub(crate) async fn run(&self, shared: &Shared) {
        let (mut waiting, mut turns) = (None, Turns::default());
        loop {
            waiting = self.collect(waiting);
            match waiting.take() {
                Some(callers) => waiting = self.decide(shared, &mut turns, callers).await,
                None if self.lock().is_closed => return,
                None => self.changed.notified().await,
            }
        }
    }

    /// Those that are left and those that have arrived. Forgets the keys of all others.
    fn collect(&self, left: Option<Callers>) -> Option<Callers> {
        let mut state = self.lock();
        let arrived = core::mem::take(&mut state.arrived);
        let mut all = left;
        for callers in arrived {
            match &mut all {
                Some(all) => all.append(callers),
                none => *none = Some(callers),
            }
        }
        all.iter_mut().for_each(Callers::drop_cancelled);
        let all = all.filter(|all| !all.is_empty());
        let keys = all.iter().flat_map(Callers::jobs).flat_map(|job| job.keys.iter().cloned());
        state.keys = keys.collect();
        all
    }

    /// Decides the first caller, and those whose rows are free by then. Returns the others.
    async fn decide(
        &self,
        shared: &Shared,
        turns: &mut Turns,
        mut callers: Callers,
    ) -> Option<Callers> {
        let place = &mut turns.connection;
        let connection = match place.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => match shared.connect().await {
                Ok(connection) => connection,
                Err(error) => {
                    callers.fail(&error);
                    return None;
                }
            },
        };
        // After each wait in vain, all rows that are free by then have a turn.
        let first = callers.jobs().next().filter(|_| !core::mem::take(&mut turns.skips));
        let awaited = first.map(Awaited::of).unwrap_or_default();
        let trip = Trip { shared, connection: &connection };
        trip.count();
        match open(trip, callers, &awaited).await {
            Opened::Ready(round, left) => {
                trip.count();
                match close(trip, round).await {
                    Closed::Answered => {
                        *place = Some(connection);
                        Some(left)
                    }
                    // Another session has inserted a row first: it can be locked now.
                    Closed::Conflict(mut again) => {
                        *place = Some(connection);
                        again.lost_race(&shared.config.retries);
                        again.append(left);
                        Some(again)
                    }
                    Closed::Broken => Some(left),
                }
            }
            Opened::Conflict(mut left) => {
                // The row stays locked: the next caller has the next turn.
                let mut first = split_locked(&mut left, awaited.into_keys());
                turns.skips = true;
                turns.waited += lock_slice(&first);
                if turns.waited >= lock_timeout(trip, &first) {
                    turns.waited = Duration::ZERO;
                    first.lost_race(&shared.config.retries);
                }
                left.append(first);
                if abandon(trip).await {
                    *place = Some(connection);
                }
                Some(left)
            }
            Opened::Failed(mut left, error) => {
                left.fail(&error);
                None
            }
            Opened::Rejected => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
