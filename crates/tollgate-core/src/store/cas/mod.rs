//! Compare-and-swap: turns "read with versions" and "write if unchanged" into a full [`Store`].
//!
//! A backend implements [`Versioned`], which is transport only; [`Cas`] adds everything else. It
//! reads the keys of an admission, runs the pure steps, and swaps the next states in if nobody wrote
//! meanwhile; a lost race is run again after a jittered back-off, a bounded number of times
//! (`conflict_exhausted` after that). A denial writes nothing. An outcome that is unknown is never
//! tried again, so nothing is charged twice.
//!
//! # A hot key
//! Callers of one process never race each other: per key they take turns (`lanes`), and waiting
//! charges are decided together, one read and one swap for up to 1,000 of them (`combine`). A backend
//! that remembers what it swapped last saves the read: the swap proves it true ([`Versioned::recall`]).
//!
//! A caller whose time is up while others keep the key busy, of this process or of another one, gets
//! `conflict_exhausted` or `queue_full`; one that meets a silent backend stays pending, and its limiter
//! calls that a `timeout` ([`patience`](super::patience)).
//!
//! A leader works inside its caller's future: one that is kept without being polled holds its lane.
//! Poll an admission to its end or drop it; deadlines (the limiter's) do.
//!
//! # Request ids
//! The record of a charged id is part of the same swap. Where a swap writes several keys it lives
//! under `<key text>:once:<id>`, next to the first key of its admission; there is one such value per
//! charged id until it expires, and [`Cas::max_request_ids`] bounds how many. Where a swap writes a single key it lives inside that key's value,
//! which costs little code, because both places hold the same text (`cell`), and gives every backend
//! exact idempotency. The number of ids per key is bounded there ([`Cas::max_records`]): more are
//! refused with `queue_full`, since a value is rewritten whole with every charge.
//!
//! # Several keys
//! Atomic where a swap writes several keys, `unsupported` elsewhere: undoing charges over separate
//! swaps could not be made exact for a caller that goes away in between.
//!
//! # Expiry
//! Lazy: a state that has expired means the same as none to its step. `keep_until` only lets the
//! backend reclaim space, and lies a slack (60 s) after that instant, because node clocks differ. A
//! `reset` swaps in an empty value instead of deleting, so that versions never start over.

mod batch;
mod bounds;
mod cell;
mod combine;
mod counted;
mod draft;
mod ids;
mod lanes;
mod layout;
pub(super) mod record;
mod retry;
pub(super) mod round;
#[cfg(test)]
mod tests;
mod versioned;

use core::fmt;
use core::pin::pin;
use core::time::Duration;
use std::sync::Arc;

use super::patience::last_words;
use super::{
    BatchResults, CallContext, Capability, Evidence, Loaded, MultiKey, Retries, SlotWrite, Store,
    TimeSource, plan, slots_of,
};
use crate::algorithm::tag;
use crate::charge::{Admission, Charge};
use crate::clock::Clock;
#[cfg(not(target_arch = "wasm32"))]
use crate::clock::SystemClock;
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::time::Micros;

use bounds::Bounds;
use cell::Cell;
use counted::Counted;
use draft::{instant, no_clock};
use ids::Ids;
use lanes::{Lanes, Turn};
use layout::Item;
use retry::{Retry, exhausted, held_up};

pub use versioned::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};

/// How long a value outlives its meaning: the largest skew of node clocks that is covered.
const SLACK: Micros = 60_000_000;
/// Request ids that one key remembers where they share its value.
const MAX_RECORDS: usize = 64;
/// The largest limit of a sliding log, whose whole state is swapped with every charge.
const SLIDING_LOG_MAX: u64 = 1_000;

/// A store over any backend that can compare and swap.
pub struct Cas<V> {
    backend: Counted<V>,
    clock: Arc<dyn Clock>,
    lanes: Lanes,
    retry: Retry,
    slack: Micros,
    max_records: usize,
    ids: Ids,
}

impl<V: Versioned> Cas<V> {
    /// A store over `backend` that waits on the clock of this process.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(backend: V) -> Self {
        Self::with_clock(backend, SystemClock::new())
    }

    /// A store over `backend` that waits on `clock` between attempts. The clock never decides.
    pub fn with_clock(backend: V, clock: impl Clock + 'static) -> Self {
        Self {
            backend: Counted::new(backend),
            clock: Arc::new(clock),
            lanes: Lanes::default(),
            retry: Retry::new(),
            slack: SLACK,
            max_records: MAX_RECORDS,
            ids: Ids::new(usize::MAX),
        }
    }

    /// How long a value outlives its meaning. 60 s by default; must exceed the skew of the clocks
    /// that decide, and the longest time a swap may be under way.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = micros(slack);
        self
    }

    /// What an admission that lost a race does.
    #[must_use]
    pub const fn retries(mut self, retries: Retries) -> Self {
        self.retry.retries = retries;
        self
    }

    /// How many request ids one key remembers on a backend that swaps a single key. 64 by default.
    #[must_use]
    pub fn max_records(mut self, records: usize) -> Self {
        self.max_records = records.max(1);
        self
    }

    /// How many request ids this process may have written that have not expired, on a backend that swaps
    /// several keys, where each is a value of its own; more get `queue_full`. No bound by default.
    #[must_use]
    pub const fn max_request_ids(mut self, ids: usize) -> Self {
        self.ids.max = ids;
        self
    }

    /// How many swaps lost a race to another process so far, for operators.
    pub fn lost_races(&self) -> u64 {
        self.backend.lost()
    }

    /// The backend.
    pub fn backend(&self) -> &V {
        &self.backend
    }

    fn bounds(&self) -> Bounds {
        let capability = self.backend.capability();
        Bounds {
            embeds_records: !capability.is_multi_key(),
            max_records: self.max_records,
            max_bytes: usize::try_from(capability.max_state_bytes).unwrap_or(usize::MAX),
            slack: self.slack,
            room: usize::MAX,
        }
    }

    /// Refuses what this backend cannot do, before it is touched.
    fn check(&self, admission: &Admission<'_>, at: TimeSource) -> Result<()> {
        let capability = self.backend.capability();
        if at == TimeSource::StoreClock && !capability.own_clock {
            return Err(no_clock());
        }
        if admission.charges().is_empty() {
            return Err(no_charge().not_sent());
        }
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

    /// Swaps in a value without a state; the request ids inside stay.
    async fn forget(&self, name: &str) -> Result<()> {
        let turn = self.lanes.join(&[name], || None);
        let forgotten = pin!(self.forget_in_turn(name, &turn));
        last_words(forgotten, || held_up(turn.ticket()).map(Err)).await
    }

    async fn forget_in_turn(&self, name: &str, turn: &Turn<'_>) -> Result<()> {
        turn.called().await;
        loop {
            let snapshot = self.backend.read(&[name]).await.map_err(Error::not_sent)?;
            let now = snapshot.clock.unwrap_or_else(|| self.clock.now());
            let Some(entry) = snapshot.entries.into_iter().next().flatten() else {
                turn.ticket().round_ended();
                return Ok(());
            };
            // What cannot be read is what a reset is for.
            let mut cell = Cell::from_text(&entry.text).unwrap_or_default();
            cell.state = None;
            cell.prune(now);
            let value = cell.to_text();
            let swap = Swap {
                key: name,
                expect: Some(&entry.version),
                value: &value,
                keep_until: cell.idle_from(now).saturating_add(self.slack),
            };
            let is_done = value == entry.text || self.backend.swap(&[swap]).await?;
            turn.ticket().round_ended();
            if is_done {
                return Ok(());
            }
            let losses = turn.ticket().lose();
            if self.retry.retries.is_exhausted(losses) {
                return Err(exhausted());
            }
            self.retry.wait(losses, false, &*self.clock).await;
        }
    }
}

impl<V: Versioned> Store for Cas<V> {
    fn capability(&self) -> Capability {
        let backend = self.backend.capability();
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
        let outcomes = self.decide(&[item]).await?;
        outcomes.into_iter().next().unwrap_or_else(|| Err(no_charge()))
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let decided = self.decide_many(batch, cx.time()).await;
        decided.into_iter().enumerate().for_each(|(index, result)| results.set(index, result));
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let at = cx.time();
        if at == TimeSource::StoreClock && !self.backend.capability().own_clock {
            return Err(no_clock());
        }
        let mut names: Vec<String> = Vec::with_capacity(charges.len());
        let mut index = Vec::with_capacity(charges.len());
        for charge in charges {
            let name = charge.key().to_text();
            let known = names.iter().position(|known| *known == name);
            index.push(known.unwrap_or(names.len()));
            if known.is_none() {
                names.push(name);
            }
        }
        let distinct: Vec<&str> = names.iter().map(String::as_str).collect();
        let snapshot = self.backend.read(&distinct).await.map_err(Error::not_sent)?;
        let now = instant(at, snapshot.clock)?;
        let states = index.into_iter().map(|index| {
            let entry = snapshot.entries.get(index).ok_or_else(draft::corrupt)?;
            match entry {
                Some(entry) => Ok(Cell::from_text(&entry.text)?.state),
                None => Ok(None),
            }
        });
        Ok(Loaded::new(now, states.collect::<Result<_>>()?))
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        self.forget(&key.to_text()).await
    }

    async fn close(&self) {
        self.backend.close().await;
    }

    fn round_trips(&self) -> Option<u64> {
        Some(self.backend.trips())
    }
}

impl<V: Versioned> fmt::Debug for Cas<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cas")
            .field("backend", &self.backend.capability())
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn check_size(charge: &Charge<'_>) -> Result<()> {
    let rule = charge.rule();
    if rule.quota_id().tag() != tag::SLIDING_LOG || rule.ceiling() <= SLIDING_LOG_MAX {
        return Ok(());
    }
    let message = format!(
        "sliding_log with a limit of {} is too large to swap whole; accepted here: 1 to {SLIDING_LOG_MAX}",
        rule.ceiling()
    );
    Err(Error::new(Code::Unsupported, message).with_field("limit").not_sent())
}

fn no_charge() -> Error {
    Error::invalid("charges", "is empty; accepted: at least one charge")
}
