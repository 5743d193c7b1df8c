//! The memory store: exact, concurrent, bounded, in this process.
//!
//! One key is one cache line, found by a keyed fingerprint. A check on a key that is there takes no
//! lock of the table and allocates nothing: a denial writes nothing, an admission is one
//! compare-and-swap (gcra, token_bucket, leaky_bucket) or one short hold of the line (windows).
//! States that do not fit a line (sliding_log, many buckets) take the mutex of a shard.
//! Expiry costs nothing per check: lines whose state has expired are reused when room is needed.

mod admit;
mod atomic_word;
mod fill;
mod fingerprint;
mod grow;
mod line;
mod quota_ids;
mod records;
mod shard;
#[cfg(not(target_arch = "wasm32"))]
mod sweep;
mod table;
#[cfg(test)]
mod tests;

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::fingerprint::Id;
use self::line::Line;
use self::quota_ids::QuotaIds;
use self::records::{Record, Records};
use self::table::Table;
use super::plan::Plan;
use super::{CallContext, Capability, Evidence, Loaded, MultiKey, Store, SyncStore, TimeSource};
use crate::charge::{Admission, Charge, Operation};
use crate::decision::Decision;
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::time::{Micros, Now};

pub(crate) use self::fingerprint::{Scope, Secrets};

/// Keys when no bound is given.
#[cfg(not(target_arch = "wasm32"))]
const DEFAULT_MAX_KEYS: usize = 1_000_000;
/// A Worker has little memory.
#[cfg(target_arch = "wasm32")]
const DEFAULT_MAX_KEYS: usize = 16_384;
/// Request ids when no bound is given.
const DEFAULT_MAX_REQUEST_IDS: usize = 100_000;

/// States in the memory of this process. Clones share the same states.
///
/// ```
/// use tollgate_core::store::Memory;
/// use tollgate_core::{Limit, Limiter, Quota};
///
/// let limiter = Limiter::new(Memory::builder().max_keys(10_000).build()?);
/// let api = Limit::gcra("api", Quota::per_minute(100))?;
/// assert!(limiter.sync().check(api.charge("ada"))?.is_allowed());
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    table: Table,
    quota_ids: QuotaIds,
    records: Records,
    secrets: &'static Secrets,
}

/// Sets the bounds of a [`Memory`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct MemoryBuilder {
    max_keys: usize,
    max_request_ids: usize,
    sweep_every: Option<Duration>,
}

impl MemoryBuilder {
    /// How many keys are kept, 1,000,000 by default; each takes 96 bytes once it is used.
    ///
    /// Once that many keys are held, newcomers take the place of keys that have expired or owe
    /// least. The table has half as many lines again, to keep searches short; a newcomer that would
    /// otherwise replace a throttled key takes one of those, so [`Memory::len`] can exceed this by
    /// half and 32 per shard (of which there are 1 to 64), but memory never grows.
    pub fn max_keys(mut self, max_keys: usize) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// How many request ids are remembered at once, 100,000 by default. One whose record holds more
    /// than 1 KiB counts as several: a refund under an id keeps the whole state of its key.
    pub fn max_request_ids(mut self, max: usize) -> Self {
        self.max_request_ids = max;
        self
    }

    /// Frees long states that have expired every so often, in the background; off by default.
    ///
    /// Only states that do not fit a cache line take memory of their own, and insertions free them
    /// too. The thread ends with the store and never keeps a process alive. Not on wasm32.
    pub fn sweep_every(mut self, interval: Duration) -> Self {
        self.sweep_every = Some(interval);
        self
    }

    /// Reserves the table.
    ///
    /// # Errors
    /// `config_invalid` naming the bound that is out of range.
    pub fn build(self) -> Result<Memory> {
        if self.max_request_ids == 0 {
            return Err(Error::config(
                "max_request_ids",
                "0 is out of range; accepted: 1 and more",
            ));
        }
        let memory = Memory(Arc::new(Inner {
            table: Table::new(self.max_keys)?,
            quota_ids: QuotaIds::default(),
            records: Records::new(self.max_request_ids),
            secrets: Secrets::of_process(),
        }));
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(interval) = self.sweep_every {
            sweep::in_background(Arc::downgrade(&memory.0), interval)?;
        }
        Ok(memory)
    }
}

impl Memory {
    /// A store with the default bounds.
    ///
    /// # Panics
    /// When there is no memory for the table, which is reserved but not touched.
    #[must_use]
    pub fn new() -> Self {
        #[expect(clippy::expect_used, reason = "the default bounds are in range")]
        Self::builder().build().expect("room for the default number of keys")
    }

    /// A store with other bounds.
    pub fn builder() -> MemoryBuilder {
        MemoryBuilder {
            max_keys: DEFAULT_MAX_KEYS,
            max_request_ids: DEFAULT_MAX_REQUEST_IDS,
            sweep_every: None,
        }
    }

    /// How many keys are held, expired ones that were not replaced yet among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.table.used()
    }

    /// Whether no key was ever held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bound on the number of keys.
    #[must_use]
    pub fn max_keys(&self) -> usize {
        self.0.table.max_keys()
    }

    /// Frees long states that have expired by the instant `at`. Decisions go on meanwhile.
    pub fn sweep(&self, at: Micros) {
        self.0.sweep(at);
    }

    #[inline(always)]
    fn id(&self, charge: &Charge<'_>) -> Id {
        self.0.secrets.id(charge.limit.scope(), charge.subject)
    }

    /// The line that seems to hold the key.
    #[inline(always)]
    fn find_fast(&self, id: Id) -> Option<&Line> {
        let table = &self.0.table;
        let last = table.last_found().filter(|line| line::resembles(line, id));
        last.or_else(|| table.search(id))
    }

    /// Decides where one compare-and-swap on a line does not do.
    #[inline(never)]
    fn check_otherwise(&self, charge: &Charge<'_>, at: Micros) -> Result<Decision> {
        if charge.operation == Operation::Take {
            let id = self.id(charge);
            if let Some(line) = self.find_fast(id)
                && let Some(decision) =
                    line::charge_short(line, id, charge.rule(), Now::at(at), charge.cost)
            {
                return Ok(decision);
            }
            if let Some(decision) = self.charge_newcomer(charge, id, at)? {
                return Ok(decision);
            }
        }
        let charges = core::slice::from_ref(charge);
        let (_, mut planned) = self.admit_locked(charges, at, |_, _| Ok(()))?;
        planned
            .decisions
            .pop()
            .ok_or_else(|| Error::new(Code::CorruptState, "no decision was made"))
    }
}

impl Inner {
    fn sweep(&self, at: Micros) {
        // Like every decision, never past the last instant: what is forgotten is a floor for them.
        let at = Now::at(at).reading();
        for index in 0..self.table.shards() {
            if let Some(mut shard) = self.table.lock(index) {
                shard.free_expired(&self.table, index, at, (0, usize::MAX));
            }
        }
    }
}

/// Neither keys nor the secrets of their fingerprints are shown.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.len();
        f.debug_struct("Memory").field("keys", &keys).field("max_keys", &self.max_keys()).finish()
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl SyncStore for Memory {
    // With a mere hint, how much of this is inlined depends on how often a program calls it; one
    // call that is left costs a tenth of all instructions, because the charge goes through memory.
    #[inline(always)]
    fn check_sync(&self, charge: &Charge<'_>, at: Micros) -> Result<Decision> {
        let (rule, now, id) = (charge.rule(), Now::at(at), self.id(charge));
        if charge.operation == Operation::Take
            && let Some(packed) = rule.packed_schedule()
            && let Some(line) = self.find_fast(id)
        {
            let tagged = (rule.quota_tag(), packed);
            let charged = line::charge_word(line, id, tagged, now, charge.cost);
            if let Some((word, next)) = charged.granted() {
                return Ok(packed.granted(word, next, now));
            }
            if let Some(word) = charged.refused() {
                return Ok(packed.refused(word, now, charge.cost));
            }
        }
        // A copy, so that the charge itself need not be in memory before it comes to this.
        let charge = *charge;
        self.check_otherwise(&charge, now.reading())
    }

    fn admit_sync(&self, admission: &Admission<'_>, at: Micros) -> Result<Evidence> {
        let (Some(once), Some(first)) = (admission.request_id, admission.charges().first()) else {
            let admitted = self.admit_locked(admission.charges(), at, |_, _| Ok(()));
            return admitted.map(|(outcome, _)| outcome);
        };
        let key = Records::key(self.0.secrets.id_of(first.key()), once.id);
        let clock = Now::at(at).reading();
        let mut partition = self.0.records.lock(&key, clock);
        if let Some(replayed) = partition.replay(&key, admission)? {
            return Ok(replayed);
        }
        let mut kept = None;
        let keep = |outcome: &Evidence, planned: &Plan| {
            if planned.admitted {
                let record = Record::of(admission, outcome);
                kept = Some((self.0.records.room(&record, clock)?, record));
            }
            Ok(())
        };
        let (outcome, _) = self.admit_locked(admission.charges(), at, keep)?;
        if let Some((room, record)) = kept {
            partition.remember(room, key, record, clock.saturating_add(once.keep));
        }
        Ok(outcome)
    }

    fn load_sync(&self, charges: &[Charge<'_>], at: Micros) -> Loaded {
        let (now, states) = self.load_locked(charges, at);
        Loaded::new(now, states)
    }

    fn reset_sync(&self, key: Key<'_>) {
        self.reset_locked(key);
    }
}

impl Store for Memory {
    fn capability(&self) -> Capability {
        Capability {
            exact: true,
            multi_key: MultiKey::Atomic,
            idempotent: true,
            in_process: true,
            ..Capability::default()
        }
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.admit_sync(admission, given(cx)?)
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        Ok(self.load_sync(charges, given(cx)?))
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        self.reset_locked(key);
        Ok(())
    }

    // Else the decision is copied once more, only to be wrapped.
    #[inline(always)]
    fn decide_now(&self, charge: &Charge<'_>, at: Micros) -> Option<Result<Decision>> {
        Some(self.check_sync(charge, at))
    }
}

fn given(cx: CallContext<'_>) -> Result<Micros> {
    match cx.time() {
        TimeSource::Given(at) => Ok(at),
        TimeSource::StoreClock => {
            Err(Error::new(Code::Unsupported, "the memory store has no clock of its own"))
        }
    }
}
