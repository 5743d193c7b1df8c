//! Read, decide, swap: one round of the callers of a key, or of one caller of several keys.
//!
//! A round reads once, runs the steps of all its callers in order, swaps once and gives each its
//! own evidence. The first caller of a key goes alone and at once; those that arrive meanwhile form
//! the next round. No task is spawned: a member drives the round, and another one drives it on if
//! that member is cancelled (`combine`).
//!
//! A caller that is cancelled before the round is marked as sent is not charged. After a lost race
//! nothing was charged: the round waits a little and tries again, together with callers that have
//! arrived. An outcome that is unknown is never tried again, so nothing is charged twice.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

use super::bounds::{Bounds, store_full};
use super::draft::{Draft, instant};
use super::ids::Ids;
use super::layout::{Item, Layout};
use super::stored_value::StoredValue;
use super::versioned::{Snapshot, Swap, Versioned};
use super::{Evidence, Jitter, Retries, TimeSource};
use crate::charge::Charge;
use crate::clock::{Clock, sleep_until};
use crate::combine::durations::Durations;
use crate::combine::{KeyQueues, Round};
use crate::error::{Error, Result};
use crate::owned::OwnedAdmission;
use crate::time::{Micros, Now};

/// Callers in one round: bounds the time that a round takes.
pub(super) const ROUND_MAX: usize = 1_000;

/// What callers wait for, and in which queues.
pub(super) type Queues = KeyQueues<Job, JobResult>;
/// What concerns all admissions of a job, else what became of each.
pub(super) type JobResult = Result<Vec<Result<Evidence>>>;
type KeyRound = Round<Job, JobResult, Queues>;

/// What a caller wants, owned: its future may be cancelled while another caller drives its round.
#[derive(Debug)]
pub(super) enum Job {
    /// Decide admissions that share one swap, in order.
    Admit {
        admissions: Vec<OwnedAdmission>,
        at: TimeSource,
        layout: Layout,
        /// When the caller stops waiting, by the clock of the adapter.
        until: Option<Micros>,
    },
    /// Swap in a value without a state.
    Forget(String),
}

impl Job {
    pub(super) fn admit(
        items: &[Item<'_>],
        layout: Layout,
        (at, until): (TimeSource, Option<Micros>),
    ) -> Self {
        let admissions = items.iter().map(|item| OwnedAdmission::from(&item.admission)).collect();
        Self::Admit { admissions, at, layout, until }
    }

    /// Whether its caller stops waiting before `end`.
    fn is_late(&self, end: Micros) -> bool {
        matches!(self, Self::Admit { until: Some(until), .. } if *until < end)
    }

    fn admissions(&self) -> (&[OwnedAdmission], TimeSource) {
        match self {
            Self::Admit { admissions, at, .. } => (admissions, *at),
            Self::Forget(_) => (&[], TimeSource::StoreClock),
        }
    }
}

/// Whether these items may be decided in a round with other callers: one charge that takes, without
/// a request id.
pub(super) fn shares(items: &[Item<'_>]) -> bool {
    match items {
        [item] if item.admission.request_id.is_none() => {
            matches!(item.admission.charges(), [charge] if charge.operation.takes())
        }
        _ => false,
    }
}

/// A backend with all that its rounds need.
pub(super) struct Adapter<V> {
    pub(super) backend: V,
    pub(super) clock: Arc<dyn Clock>,
    ids: Ids,
    jitter: Jitter,
    durations: Durations,
    /// Calls that the backend has received, and swaps that lost a race: for operators.
    pub(super) trips: AtomicU64,
    pub(super) lost_races: AtomicU64,
}

/// What may be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) retries: Retries,
    pub(super) slack: Micros,
    pub(super) max_records: usize,
    pub(super) max_ids: usize,
}

/// How an attempt ended.
enum Attempt {
    /// All callers are answered.
    Done,
    LostRace,
}

impl<V: Versioned> Adapter<V> {
    pub(super) fn new(backend: V, clock: impl Clock + 'static, jitter: Jitter) -> Self {
        Self {
            backend,
            clock: Arc::new(clock),
            ids: Ids::default(),
            jitter,
            durations: Durations::default(),
            trips: AtomicU64::new(0),
            lost_races: AtomicU64::new(0),
        }
    }

    /// Reads. A read charges nothing: trying again is safe.
    pub(super) async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        self.trips.fetch_add(1, Relaxed);
        self.backend.read(keys).await.map_err(Error::not_sent)
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        self.trips.fetch_add(1, Relaxed);
        let is_won = self.backend.swap(writes).await?;
        self.lost_races.fetch_add(u64::from(!is_won), Relaxed);
        Ok(is_won)
    }

    /// Runs a round until all its callers are answered.
    pub(super) async fn run(self: Arc<Self>, settings: Settings, mut round: KeyRound) {
        loop {
            let losses = match self.attempt(settings, &mut round).await {
                Ok(Attempt::Done) => return,
                Ok(Attempt::LostRace) => round.lost_race(&settings.retries),
                Err(error) => return round.fail(&error),
            };
            if losses == 0 {
                return;
            }
            self.wait(settings.retries, (losses, self.is_recalled(&round))).await;
            round.take_late_arrivals();
        }
    }

    /// One attempt, once the backend accepts one more call.
    async fn attempt(&self, settings: Settings, round: &mut KeyRound) -> Result<Attempt> {
        let Some(limit) = self.backend.call_limit() else {
            return self.attempt_now(settings, round).await;
        };
        let permit = limit.acquire(|| round.count_answered()).await;
        let attempt = self.attempt_now(settings, round).await;
        if !attempt.as_ref().is_err_and(Error::is_outage) {
            permit.answered();
        }
        attempt
    }

    async fn attempt_now(&self, settings: Settings, round: &mut KeyRound) -> Result<Attempt> {
        // A swap under way at the deadline of its caller has an unknown outcome, and an outage mode
        // decides. So none begins too late for callers that other writers have delayed.
        let began = self.clock.now();
        let end = began.saturating_add(self.durations.shortest().saturating_mul(2));
        round.refuse_contended(|job| job.is_late(end));
        let attempt = self.decide(settings, round).await;
        self.durations.add(self.clock.now().saturating_sub(began));
        attempt
    }

    /// Reads, decides, swaps.
    async fn decide(&self, settings: Settings, round: &mut KeyRound) -> Result<Attempt> {
        round.drop_cancelled();
        let first = round.jobs().next();
        if let Some(Job::Forget(name)) = first {
            let name = name.clone();
            return self.forget(settings.slack, round, &name).await;
        }
        let Some(names) = names_of(round) else { return Ok(Attempt::Done) };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if let Some(kept) = self.backend.recall(&names) {
            round.mark_sent();
            let drafted = self.draft(settings, round, kept);
            if let Ok((draft, counts)) = drafted
                && draft.proves(names.len())
            {
                return self.settle(settings, round, (draft, &names, &counts)).await;
            }
            round.mark_not_sent();
        }
        let snapshot = self.read(&names).await?;
        // A caller that was cancelled during the read is not charged.
        round.mark_sent();
        let (draft, counts) = self.draft(settings, round, snapshot)?;
        self.settle(settings, round, (draft, &names, &counts)).await
    }

    /// Runs the admissions of all callers over a snapshot, in order, and counts those of each.
    fn draft(
        &self,
        settings: Settings,
        round: &KeyRound,
        snapshot: Snapshot,
    ) -> Result<(Draft, Vec<usize>)> {
        let Some(Job::Admit { layout, .. }) = round.jobs().next() else {
            return Ok((Draft::default(), Vec::new()));
        };
        let mut charges: Vec<Charge<'_>> = Vec::with_capacity(round.len());
        let mut owned = Vec::with_capacity(round.len());
        let mut counts = Vec::with_capacity(round.len());
        for job in round.jobs() {
            let (admissions, at) = job.admissions();
            counts.push(admissions.len());
            for admission in admissions {
                let from = charges.len();
                charges.extend(admission.each_charge());
                owned.push((admission, from..charges.len(), at));
            }
        }
        let items = owned.into_iter().filter_map(|(admission, range, at)| {
            Some(Item { admission: admission.of(charges.get(range)?), at })
        });
        let items: Vec<Item<'_>> = items.collect();
        let mut bounds = self.bounds(settings);
        if !bounds.embeds_records && items.iter().any(|item| item.admission.request_id.is_some()) {
            let now = items.iter().filter_map(|item| instant(item.at, snapshot.clock).ok());
            let now = now.map(Now::reading).max().unwrap_or_default();
            bounds.room = self.ids.room(now, settings.max_ids);
        }
        Ok((Draft::make(&items, layout, snapshot, (bounds, None))?, counts))
    }

    /// Swaps what a draft writes, and gives each caller its evidence.
    async fn settle(
        &self,
        settings: Settings,
        round: &mut KeyRound,
        (mut draft, names, counts): (Draft, &[&str], &[usize]),
    ) -> Result<Attempt> {
        let swaps = draft.swaps(names);
        if !swaps.is_empty() {
            let embeds_records = self.bounds(settings).embeds_records;
            let ids: &[Micros] = if embeds_records { &[] } else { &draft.added };
            // Others may have taken the last places since the draft was made.
            if !self.ids.add(ids, settings.max_ids) {
                return Err(store_full());
            }
            match self.swap(&swaps).await {
                Ok(true) => {}
                Ok(false) => {
                    self.ids.remove(ids);
                    return Ok(Attempt::LostRace);
                }
                Err(error) => {
                    if error.is_not_sent() {
                        self.ids.remove(ids);
                    }
                    return Err(error);
                }
            }
        }
        let mut outcomes = core::mem::take(&mut draft.outcomes).into_iter();
        let each = counts.iter().map(|count| Ok(outcomes.by_ref().take(*count).collect()));
        round.finish(each);
        Ok(Attempt::Done)
    }

    /// Swaps in a value without a state; the request ids inside stay.
    async fn forget(&self, slack: Micros, round: &mut KeyRound, name: &str) -> Result<Attempt> {
        let snapshot = self.read(&[name]).await?;
        round.mark_sent();
        let now = snapshot.clock.unwrap_or_else(|| self.clock.now());
        if let Some(entry) = snapshot.entries.into_iter().next().flatten() {
            // What cannot be read is what a reset is for.
            let mut cell = StoredValue::from_text(&entry.text).unwrap_or_default();
            cell.state = None;
            cell.prune(now);
            let value = cell.to_text();
            let swap = Swap {
                key: name,
                expect: Some(&entry.version),
                value: &value,
                keep_until: cell.idle_from(now).saturating_add(slack),
            };
            if value != entry.text && !self.swap(&[swap]).await? {
                return Ok(Attempt::LostRace);
            }
        }
        round.finish([Ok(Vec::new())]);
        Ok(Attempt::Done)
    }

    pub(super) fn bounds(&self, settings: Settings) -> Bounds {
        let capability = self.backend.capability();
        Bounds {
            embeds_records: !capability.is_multi_key(),
            max_records: settings.max_records,
            max_bytes: usize::try_from(capability.max_state_bytes).unwrap_or(usize::MAX),
            slack: settings.slack,
            room: usize::MAX,
        }
    }

    /// Whether the backend keeps the values of the round, as a lost race may return them.
    fn is_recalled(&self, round: &KeyRound) -> bool {
        let names = names_of(round).unwrap_or_default();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        !names.is_empty() && self.backend.recall(&names).is_some()
    }

    /// Waits before the next attempt. If the lost race has returned the current values, the wait is
    /// short and does not grow: those values age, and would only lose again.
    async fn wait(&self, retries: Retries, (losses, is_recalled): (u32, bool)) {
        let wait = pause(retries, (losses, is_recalled), self.jitter.next());
        if wait > 0 {
            sleep_until(&*self.clock, self.clock.now().saturating_add(wait)).await;
        }
    }
}

fn pause(retries: Retries, (losses, is_recalled): (u32, bool), random: u64) -> Micros {
    if is_recalled { retries.wait(1, random) / 4 } else { retries.wait(losses, random) }
}

/// The names of all values that the round reads.
fn names_of(round: &KeyRound) -> Option<Vec<String>> {
    match round.jobs().next()? {
        Job::Admit { layout, .. } => Some(layout.names().into_iter().map(str::to_owned).collect()),
        Job::Forget(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_that_keeps_values_waits_a_little_however_often_it_lost() {
        let jitter = Jitter::seeded(7);
        for losses in 1..80_u32 {
            let waits = (0..200).map(|_| pause(Retries::default(), (losses, true), jitter.next()));
            let longest = waits.max().unwrap();
            assert!((250..=500).contains(&longest), "{losses} losses waited {longest}");
        }
    }
}
