//! Compare-and-swap: turns "read with versions" and "write if unchanged" into a full [`Store`].
//!
//! A backend implements [`Versioned`], which is transport only; [`Cas`] adds everything else. It
//! reads the keys of an admission, runs the pure steps, and swaps the next states in if no other
//! writer wrote meanwhile; a lost race is run again after a jittered back-off, a bounded number of
//! times (`conflict_exhausted` after that). A denial writes nothing. An outcome that is unknown is
//! never tried again, so nothing is charged twice.
//!
//! # A hot key
//! Callers of one process never race each other: per key they take turns, and waiting charges are
//! decided together, one read and one swap for up to 1,000 of them (`attempt`,
//! [`combine`](crate::combine)). A backend that keeps what it swapped last saves the read: the
//! swap proves it true ([`Versioned::recall`]).
//!
//! The adapter records in the [`CallContext`] of each call whether it was sent, whether it lost a
//! race, and whether others of its keys were served while it waited. A round works inside of the
//! future of one of its callers: a caller that keeps this future without polling it holds up its
//! keys. Poll an admission to its end or drop it; deadlines (the limiter's) do.
//!
//! # Request ids
//! The record of a charged id is part of the same swap. Where a swap writes several keys it lives
//! under `<key text>:once:<id>`, next to the first key of its admission; there is one such value
//! per charged id until it expires, and [`Cas::max_request_ids`] bounds how many. Where a swap
//! writes a single key it lives inside that key's value, which costs little code, because both
//! places hold the same text (`stored_value`), and gives every backend exact idempotency. The
//! number of ids per key is bounded there ([`Cas::max_records`]): more are refused with
//! `queue_full`, since a value is rewritten whole with every charge.
//!
//! # Several keys
//! Atomic where a swap writes several keys, `unsupported` elsewhere: undoing charges over separate
//! swaps could not be made exact for a caller that is cancelled in between.
//!
//! # Expiry
//! Lazy: a state that has expired means the same as none to its step. `keep_until` only lets the
//! backend reclaim space, and lies a slack (60 s) after that instant, because node clocks differ. A
//! `reset` swaps in an empty value instead of deleting, so that versions never start over.

mod attempt;
mod batch;
pub(super) mod bounds;
mod draft;
mod ids;
mod layout;
pub(super) mod record;
pub(super) mod round;
mod stored_value;
#[cfg(test)]
pub(crate) mod tests;
mod versioned;

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::Arc;

use super::id_shares::{Forget, ReservedIds};
use super::{
    BatchResults, CallContext, CallPermit, Capability, Evidence, Jitter, Loaded, MultiKey, Owner,
    Retries, SlotWrite, Store, TimeSource, plan, slots_of,
};
use crate::algorithm::Renewal;
use crate::charge::{Admission, Charge};
use crate::clock::Clock;
#[cfg(not(target_arch = "wasm32"))]
use crate::clock::SystemClock;
use crate::combine::KeyQueues;
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::time::{Micros, micros_of};

use attempt::{Adapter, Job, JobResult, Queues, ROUND_MAX, Settings, shares};
use bounds::check_bound;
use draft::{instant, no_clock};
use layout::{Item, Layout};
use stored_value::StoredValue;

pub use versioned::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};

/// How long a value outlives its meaning: the largest skew of node clocks that is covered.
pub(super) const SLACK: Micros = 60_000_000;
/// Request ids that one key keeps where they share its value.
const MAX_RECORDS: usize = 64;
/// The largest limit of an algorithm whose state grows with the limit: it is swapped whole with
/// every charge.
const LOG_MAX: u64 = 1_000;

/// A store over any backend that can compare and swap: [`Versioned`] has an example of one.
///
/// ```
/// use core::time::Duration;
/// use tollgate_core::Limiter;
/// use tollgate_core::store::Cas;
/// use tollgate_core::store::cas::Versioned;
///
/// fn limiter<V: Versioned + 'static>(backend: V) -> Limiter<Cas<V>> {
///     // The clocks of the processes differ by at most five seconds.
///     Limiter::new(Cas::new(backend).slack(Duration::from_secs(5)))
/// }
/// ```
pub struct Cas<V> {
    adapter: Arc<Adapter<V>>,
    settings: Settings,
    queues: Arc<Queues>,
}

impl<V: Versioned + 'static> Cas<V> {
    /// A store over `backend` that waits on the clock of this process.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(backend: V) -> Self {
        Self::with_clock(backend, SystemClock::new())
    }

    /// A store over `backend` that waits on `clock` between attempts. The clock never decides.
    pub fn with_clock(backend: V, clock: impl Clock + 'static) -> Self {
        Self::with_jitter(backend, clock, Jitter::new())
    }

    /// The same with other random numbers for its waits. On wasm32 the standard library has no
    /// randomness: a host brings its own.
    pub fn with_jitter(backend: V, clock: impl Clock + 'static, jitter: Jitter) -> Self {
        let settings = Settings {
            retries: Retries::default(),
            slack: SLACK,
            max_records: MAX_RECORDS,
            max_ids: usize::MAX,
        };
        Self {
            adapter: Arc::new(Adapter::new(backend, clock, jitter)),
            settings,
            queues: KeyQueues::new(ROUND_MAX),
        }
    }

    /// How long a value outlives its meaning. 60 s by default; must exceed the skew of the clocks
    /// that decide, and the longest time a swap may be under way.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Self {
        self.settings.slack = micros_of(slack);
        self
    }

    /// What an admission that lost a race does.
    #[must_use]
    pub const fn retries(mut self, retries: Retries) -> Self {
        self.settings.retries = retries;
        self
    }

    /// How many request ids one key keeps on a backend that swaps a single key; then the oldest is
    /// forgotten, or new ones are refused, as the limit says. 64 by default.
    #[must_use]
    pub fn max_records(mut self, records: usize) -> Self {
        self.settings.max_records = records.max(1);
        self
    }

    /// How many request ids this process may have written that have not expired, on a backend that
    /// swaps several keys, where each is a value of its own; more get `queue_full`, whatever the
    /// limit says: this process does not know the names of older ones. No bound by default.
    #[must_use]
    pub const fn max_request_ids(mut self, ids: usize) -> Self {
        self.settings.max_ids = ids;
        self
    }

    /// How many swaps lost a race to another process so far, for operators.
    #[must_use]
    pub fn lost_races(&self) -> u64 {
        self.adapter.lost_races.load(Relaxed)
    }

    /// The backend.
    #[must_use]
    pub fn backend(&self) -> &V {
        &self.adapter.backend
    }

    fn embeds_records(&self) -> bool {
        !self.backend().capability().is_multi_key()
    }

    /// Decides items that share one swap, in order.
    ///
    /// # Errors
    /// What concerns all of them: the backend failed, or others kept winning the race.
    async fn decide(&self, items: &[Item<'_>], cx: CallContext<'_>) -> JobResult {
        let layout = Layout::of(items, self.embeds_records());
        let keys: Vec<String> = layout.keys().into_iter().map(str::to_owned).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let until = cx.time_left().map(|left| self.adapter.clock.now().saturating_add(left));
        let job = Job::admit(items, layout, (cx.time(), until));
        self.answer(&keys, (job, shares(items)), cx).await
    }

    /// Waits for the answer to a job, or leads a round that decides it.
    async fn answer(&self, keys: &[&str], job: (Job, bool), cx: CallContext<'_>) -> JobResult {
        let call = self.queues.submit(keys, job, cx);
        call.answer_or_lead(|lead| {
            let (adapter, settings) = (Arc::clone(&self.adapter), self.settings);
            lead.run_here(|round| adapter.run(settings, round))
        })
        .await
    }

    /// Refuses what this backend cannot do, before it is touched.
    fn check(&self, admission: &Admission<'_>, at: TimeSource) -> Result<()> {
        let capability = self.backend().capability();
        if at == TimeSource::StoreClock && !capability.own_clock {
            return Err(no_clock());
        }
        if admission.charges().is_empty() {
            return Err(no_charge().not_sent());
        }
        check_bound(admission, false)?;
        if !capability.long_logs {
            admission.charges().iter().try_for_each(check_size)?;
        }
        let (_, keys) = slots_of(admission.charges());
        let max = usize::try_from(capability.keys_per_swap.max(1)).unwrap_or(usize::MAX);
        let has_own_record = admission.request_id.is_some() && capability.is_multi_key();
        let needed = keys.len() + usize::from(has_own_record);
        if needed > max {
            let message = format!(
                "the admission writes {needed} keys at once; this store can write {max}, \
                 one of them for a request id if it can write several"
            );
            return Err(Error::new(Code::Unsupported, message).not_sent());
        }
        Ok(())
    }
}

impl<V: Versioned + 'static> Store for Cas<V> {
    fn capability(&self) -> Capability {
        let backend = self.backend().capability();
        Capability {
            exact: true,
            durable: backend.durable,
            own_clock: backend.own_clock,
            multi_key: if backend.is_multi_key() {
                MultiKey::Atomic
            } else {
                MultiKey::Unsupported
            },
            idempotent: true,
            max_state_bytes: backend.max_state_bytes,
            ..Capability::default()
        }
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        let at = cx.time();
        self.check(admission, at)?;
        let item = Item { admission: *admission, at };
        let outcomes = self.decide(&[item], cx).await?;
        outcomes.into_iter().next().unwrap_or_else(|| Err(no_charge()))
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        self.decide_many(batch, results, cx).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let at = cx.time();
        if at == TimeSource::StoreClock && !self.backend().capability().own_clock {
            return Err(no_clock());
        }
        let (slots, keys) = slots_of(charges);
        let names: Vec<String> = keys.iter().map(Key::to_text).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let permit = match self.backend().call_limit() {
            Some(limit) => Some(limit.acquire_for(cx).await?),
            None => None,
        };
        let snapshot = self.adapter.read(&names).await?;
        permit.iter().for_each(CallPermit::answered);
        let now = instant(at, snapshot.clock)?;
        let states = slots.into_iter().map(|slot| {
            let entry = snapshot.entries.get(slot).ok_or_else(draft::corrupt)?;
            match entry {
                Some(entry) => Ok(StoredValue::from_text(&entry.text)?.state),
                None => Ok(None),
            }
        });
        Ok(Loaded::new(now, states.collect::<Result<_>>()?))
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        let name = key.to_text();
        let job = Job::Forget(name.clone());
        self.answer(&[&name], (job, false), cx).await.map(drop)
    }

    async fn close(&self) {
        self.backend().close().await;
    }

    fn round_trips(&self) -> Option<u64> {
        Some(self.adapter.trips.load(Relaxed))
    }
}

impl<V: Versioned + 'static> fmt::Debug for Cas<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cas")
            .field("backend", &self.backend().capability())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

fn check_size(charge: &Charge<'_>) -> Result<()> {
    let rule = charge.rule();
    if rule.ceiling() <= LOG_MAX || rule.describe().renewal != Renewal::Rolling {
        return Ok(());
    }
    let message = format!(
        "{} with a limit of {} is too large to swap whole; accepted here: 1 to {LOG_MAX}",
        rule.name(),
        rule.ceiling()
    );
    Err(Error::new(Code::Unsupported, message).with_field("limit").not_sent())
}

fn no_charge() -> Error {
    Error::invalid("charges", "is empty; accepted: at least one charge")
}
