//! A store over the storage of the object that the code runs in.
//!
//! An object is single-threaded, and rounds take turns: nothing but its storage is awaited between
//! the read and the write of a round. So a round is exact without retries.
//!
//! # Time
//! The clock is the object's. It may step back when the object moves to another machine. Each state
//! implies a time that it has seen and decides no earlier; what is deleted has meant nothing for at
//! least the slack, which covers the step.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use std::collections::HashMap;
use std::fmt;

use tollgate_core::store::round::{Forget, IdShares, Round, RoundBounds, ValueName, state_in};
use tollgate_core::store::{
    BatchResults, CallContext, CallLimit, Capability, Evidence, Loaded, MultiKey, Store, TimeSource,
};
use tollgate_core::{
    Admission, Charge, Clock as _, Code, Error, Key, Micros, Now, Result, State as KeyState,
};
use worker::State;
use worker::send::{IntoSendFuture as _, SendWrapper};

use super::panics::{ThisObject, this_object};
use super::storage::{KeyValue, ObjectStorage, Row, Sqlite};
use crate::clock::{WorkerClock, micros};
use crate::error::unavailable;

const DEFAULT_SLACK: Duration = Duration::from_secs(60);
const DEFAULT_MAX_REQUEST_IDS: usize = 100_000;
const DEFAULT_RECLAIM_EVERY: Duration = Duration::from_secs(3_600);
/// How soon a sweep goes on that found more than a page.
const NEXT_PAGE: Duration = Duration::from_secs(1);
/// The number of stored request ids is not known yet.
const UNKNOWN: usize = usize::MAX;

/// A store inside of a Durable Object, over the object's own storage.
///
/// For code that runs in an object and limits what happens there. Workers limit through
/// [`DurableObjects`](super::DurableObjects).
pub struct ObjectStore {
    storage: SendWrapper<ObjectStorage>,
    alarms: SendWrapper<worker::Storage>,
    pub(super) object: SendWrapper<ThisObject>,
    slack: Micros,
    max_request_ids: usize,
    /// The request ids of each policy and key that were written since the object was made.
    id_shares: IdShares,
    reclaim_every: Option<Duration>,
    /// One round at a time.
    turn: CallLimit,
    /// How many request ids are stored.
    records: AtomicUsize,
    /// How many were forgotten before they expired.
    forgotten: AtomicU64,
    /// Whether an alarm is known to be set.
    has_alarm: AtomicBool,
}

/// Values of keys that live in other objects, by their names.
pub(super) type Elsewhere = HashMap<String, Option<String>>;

impl ObjectStore {
    /// A store over the SQLite storage of a class of `new_sqlite_classes`.
    #[must_use]
    pub fn sqlite(state: &State) -> Self {
        let storage = ObjectStorage::Sqlite(Sqlite::new(state.storage().sql()));
        Self::over(state, storage)
    }

    /// A store over the key-value storage, which every class has.
    #[must_use]
    pub fn key_value(state: &State) -> Self {
        Self::over(state, ObjectStorage::KeyValue(KeyValue::new(state.storage())))
    }

    fn over(state: &State, storage: ObjectStorage) -> Self {
        Self {
            storage: SendWrapper::new(storage),
            alarms: SendWrapper::new(state.storage()),
            object: SendWrapper::new(this_object(state)),
            slack: micros(DEFAULT_SLACK),
            max_request_ids: DEFAULT_MAX_REQUEST_IDS,
            id_shares: IdShares::new(DEFAULT_MAX_REQUEST_IDS),
            reclaim_every: Some(DEFAULT_RECLAIM_EVERY),
            turn: CallLimit::new(1),
            records: AtomicUsize::new(UNKNOWN),
            forgotten: AtomicU64::new(0),
            has_alarm: AtomicBool::new(false),
        }
    }

    /// How long a value is kept after it means the same as none, 60 s by default: the largest step
    /// back of the object's clock that is covered.
    #[must_use]
    pub const fn slack(mut self, slack: Duration) -> Self {
        self.slack = micros(slack);
        self
    }

    /// How many request ids the object remembers, 100,000 by default. Then the oldest are forgotten
    /// or more are refused, as the limit says. No policy takes more than it leaves free, and no key
    /// more than a sixteenth.
    #[must_use]
    pub fn max_request_ids(self, ids: usize) -> Self {
        Self { max_request_ids: ids, id_shares: IdShares::new(ids), ..self }
    }

    /// How often an alarm deletes values that mean nothing any more, every hour by default; `None`
    /// for never.
    #[must_use]
    pub const fn reclaim_every(mut self, interval: Option<Duration>) -> Self {
        self.reclaim_every = interval;
        self
    }

    /// Deletes a page of values that mean nothing any more, and sets the next alarm if values are
    /// left. Call it from the alarm of the object.
    ///
    /// # Errors
    /// `store_unavailable` when the storage fails.
    pub async fn alarm(&self) -> Result<()> {
        let Some(interval) = self.reclaim_every else { return Ok(()) };
        self.has_alarm.store(false, Relaxed);
        let swept = {
            let _turn = self.turn.acquire(|| ()).await;
            self.records.store(UNKNOWN, Relaxed);
            self.storage.sweep(WorkerClock.now()).into_send().await?
        };
        match (swept.has_more, swept.has_values) {
            (true, _) => self.set_alarm(NEXT_PAGE).await,
            (false, true) => self.set_alarm(interval).await,
            (false, false) => Ok(()),
        }
    }

    /// Decides admissions in order, with one read and one write.
    pub(super) async fn decide(
        &self,
        admissions: &[(Admission<'_>, TimeSource)],
        elsewhere: &Elsewhere,
        cx: CallContext<'_>,
    ) -> Result<Vec<Result<Evidence>>> {
        if admissions.iter().any(|(admission, _)| admission.charges().is_empty()) {
            let message = "is empty; accepted: at least one charge";
            return Err(Error::invalid("charges", message).not_sent());
        }
        let has_written;
        let outcomes = {
            let turn = self.turn.acquire_for(cx).await?;
            cx.sent();
            let decided = self.decide_in_turn(admissions, elsewhere).into_send().await?;
            turn.answered();
            has_written = decided.1;
            decided.0
        };
        if has_written && !self.has_alarm.load(Relaxed) {
            // What is written is charged, and the next write tries again.
            if let Err(error) = self.ensure_alarm().into_send().await {
                worker::console_error!("{error}");
            }
        }
        Ok(outcomes)
    }

    async fn decide_in_turn(
        &self,
        admissions: &[(Admission<'_>, TimeSource)],
        elsewhere: &Elsewhere,
    ) -> Result<(Vec<Result<Evidence>>, bool)> {
        let now = WorkerClock.now();
        let round = Round::of(admissions.iter().copied());
        let names: Vec<ValueName<'_>> = round.names().collect();
        let own: Vec<&str> = names
            .iter()
            .map(|name| name.text)
            .filter(|name| !elsewhere.contains_key(*name))
            .collect();
        let mut read = self.storage.read(&own).await?.into_iter();
        let values = names.iter().map(|name| match elsewhere.get(name.text) {
            Some(value) => value.clone(),
            None => read.next().flatten(),
        });
        let values: Vec<Option<String>> = values.collect();
        let (room, at) = self.room(admissions, now).await?;
        let is_new: Vec<bool> = values.iter().map(Option::is_none).collect();
        let bounds = RoundBounds { slack: self.slack, room };
        let mut reserved = self.id_shares.reserve(at);
        let decided = round.decide_with_shares(values, Some(now), (bounds, &mut reserved))?;
        let rows = decided.writes.iter().filter_map(|write| {
            let name = names.get(write.place)?;
            let is_own = !elsewhere.contains_key(name.text);
            is_own.then_some((name, write, is_new.get(write.place) == Some(&true)))
        });
        let added = rows.clone().filter(|(name, _, is_new)| name.is_record && *is_new).count();
        let rows: Vec<Row<'_>> = rows
            .map(|(name, write, _)| Row {
                name: name.text,
                value: &write.text,
                keep_until: write.keep_until,
            })
            .collect();
        self.forget_records(&decided.forget).await?;
        // Settlements are not forgotten, also those from before this object was made.
        if added > 0 && added > self.max_request_ids.saturating_sub(self.records.load(Relaxed)) {
            let message = "too many request ids are kept by this object; wait until some expire";
            return Err(Error::new(Code::QueueFull, message).not_sent());
        }
        if !rows.is_empty() {
            self.storage.write(&rows).await?;
            reserved.keep();
        }
        if added > 0 {
            self.records.fetch_add(added, Relaxed);
        }
        Ok((decided.outcomes, !rows.is_empty()))
    }

    /// Deletes request ids that make room for those of a round.
    async fn forget_records(&self, forget: &[Forget]) -> Result<()> {
        for forget in forget {
            let deleted = self.storage.forget_records(forget).await?;
            // The number is known: the round has needed it.
            self.records.fetch_sub(deleted.min(self.records.load(Relaxed)), Relaxed);
            self.forgotten.fetch_add(u64::try_from(deleted).unwrap_or(u64::MAX), Relaxed);
        }
        Ok(())
    }

    /// How many more request ids may be stored, and at which instant. Expired ones are deleted
    /// where there is no room.
    async fn room(
        &self,
        admissions: &[(Admission<'_>, TimeSource)],
        clock: Micros,
    ) -> Result<(usize, Micros)> {
        let with_ids = admissions.iter().filter(|(admission, _)| admission.request_id.is_some());
        let wanted = with_ids.clone().count();
        if wanted == 0 {
            return Ok((0, clock));
        }
        let now = with_ids.map(|(_, at)| reading_of(*at, clock)).min().unwrap_or(clock);
        let mut stored = self.stored_records().await?;
        if wanted > self.max_request_ids.saturating_sub(stored) {
            self.storage.reclaim_records(now).await?;
            self.records.store(UNKNOWN, Relaxed);
            stored = self.stored_records().await?;
        }
        Ok((self.max_request_ids.saturating_sub(stored), now))
    }

    async fn stored_records(&self) -> Result<usize> {
        let known = self.records.load(Relaxed);
        if known != UNKNOWN {
            return Ok(known);
        }
        let count = self.storage.count_records().await?;
        self.records.store(count, Relaxed);
        Ok(count)
    }

    async fn ensure_alarm(&self) -> Result<()> {
        let Some(interval) = self.reclaim_every else { return Ok(()) };
        let alarm = self.alarms.get_alarm().await.map_err(alarm_failed)?;
        match alarm {
            Some(_) => self.has_alarm.store(true, Relaxed),
            None => self.set_alarm(interval).await?,
        }
        Ok(())
    }

    async fn set_alarm(&self, after: Duration) -> Result<()> {
        self.alarms.set_alarm(after).into_send().await.map_err(alarm_failed)?;
        self.has_alarm.store(true, Relaxed);
        Ok(())
    }

    /// The values of names.
    pub(super) async fn read(&self, names: &[&str]) -> Result<(Micros, Vec<Option<String>>)> {
        let _turn = self.turn.acquire(|| ()).await;
        let values = self.storage.read(names).into_send().await?;
        Ok((WorkerClock.now(), values))
    }

    /// Writes all values if each name still has the expected one.
    pub(super) async fn swap(&self, rows: &[(Row<'_>, Option<&str>)]) -> Result<bool> {
        let _turn = self.turn.acquire(|| ()).await;
        let names: Vec<&str> = rows.iter().map(|(row, _)| row.name).collect();
        let found = self.storage.read(&names).into_send().await?;
        let mut expected = rows.iter().map(|(_, expect)| *expect);
        if !found.iter().all(|value| expected.next() == Some(value.as_deref())) {
            return Ok(false);
        }
        let rows: Vec<Row<'_>> = rows.iter().map(|(row, _)| row.clone()).collect();
        self.storage.write(&rows).into_send().await?;
        // A request id may be among them.
        self.records.store(UNKNOWN, Relaxed);
        Ok(true)
    }

    pub(super) async fn forget(&self, name: &str) -> Result<()> {
        let _turn = self.turn.acquire(|| ()).await;
        self.storage.delete(name).into_send().await
    }
}

impl Store for ObjectStore {
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = true;
        capability.durable = true;
        capability.own_clock = true;
        capability.multi_key = MultiKey::Atomic;
        capability.idempotent = true;
        capability.bounded_ids = true;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        let outcomes = self.decide(&[(*admission, cx.time())], &Elsewhere::new(), cx).await?;
        outcomes.into_iter().next().unwrap_or_else(|| Err(no_outcome()))
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let items: Vec<_> = batch.iter().map(|admission| (*admission, cx.time())).collect();
        let outcomes = self.decide(&items, &Elsewhere::new(), cx).await;
        fill(results, outcomes, batch.len());
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let names: Vec<String> = charges.iter().map(|charge| charge.key().to_text()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (clock, values) = self.read(&names).await?;
        Ok(Loaded::new(Now::at(reading_of(cx.time(), clock)), states_of(values)?))
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        self.forget(&key.to_text()).await
    }

    fn forgotten_request_ids(&self) -> u64 {
        self.forgotten.load(Relaxed)
    }
}

impl fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStore")
            .field("slack", &self.slack)
            .field("max_request_ids", &self.max_request_ids)
            .field("reclaim_every", &self.reclaim_every)
            .finish_non_exhaustive()
    }
}

/// Puts the outcomes of a batch into their slots, or one error into all of them.
pub(super) fn fill(results: &BatchResults, outcomes: Result<Vec<Result<Evidence>>>, count: usize) {
    match outcomes {
        Ok(outcomes) => {
            outcomes.into_iter().enumerate().for_each(|(index, one)| results.set(index, one));
        }
        Err(error) => (0..count).for_each(|index| results.set(index, Err(error.clone()))),
    }
}

/// The states in values.
pub(super) fn states_of(values: Vec<Option<String>>) -> Result<Vec<Option<KeyState>>> {
    let state = |value: Option<String>| value.map_or(Ok(None), |text| state_in(&text));
    values.into_iter().map(state).collect()
}

/// The reading that decides.
pub(super) const fn reading_of(at: TimeSource, clock: Micros) -> Micros {
    match at {
        TimeSource::Given(reading) => reading,
        TimeSource::StoreClock => clock,
    }
}

pub(super) fn no_outcome() -> Error {
    Error::new(Code::CorruptState, "an admission has no outcome")
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn alarm_failed(error: worker::Error) -> Error {
    unavailable("the alarm of the object failed", &error)
}
