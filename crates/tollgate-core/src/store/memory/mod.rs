//! The memory store: exact, concurrent, bounded, in this process.
//!
//! One key is one cache line, found by a keyed fingerprint. A check on a key that is there takes no
//! lock of the table and allocates nothing: a denial writes nothing, an admission is one
//! compare-and-swap (gcra, token_bucket, leaky_bucket) or one short hold of the line (windows).
//! States that do not fit a line (sliding_log, many buckets) take the mutex of a shard.
//! Expiry costs nothing per check: lines whose state has expired are reused when room is needed.

mod admit;
mod atomic_word;
mod bounds;
mod budget;
mod builder;
mod contents;
mod fill;
mod fingerprint;
mod grow;
mod keys;
mod line;
mod namespace;
mod policies;
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

pub use self::bounds::{Bounds, WhenFull, WhenIdsFull};
pub use self::builder::MemoryBuilder;
use self::fingerprint::Id;
use self::line::{Charged, Line};
pub use self::policies::PolicyUsage;
use self::policies::{AllStates, PolicyStates};
use super::plan::Plan;
use super::{CallContext, Capability, Evidence, Loaded, MultiKey, Store, SyncStore, TimeSource};
use crate::charge::{Admission, Charge, Operation};
use crate::decision::Decision;
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::time::{Micros, Now};

pub(crate) use self::fingerprint::{Scope, Secrets};

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
    states: AllStates,
    secrets: &'static Secrets,
}

impl Memory {
    /// A store with the default bounds.
    ///
    /// # Panics
    /// Never: the default bounds are in range.
    #[must_use]
    pub fn new() -> Self {
        #[expect(clippy::expect_used, reason = "the default bounds are in range")]
        Self::builder().build().expect("the default bounds are in range")
    }

    /// A store with other bounds.
    pub fn builder() -> MemoryBuilder {
        MemoryBuilder::default()
    }

    /// How many keys are held, expired ones that were not replaced yet among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.states.iter().map(|states| states.table.used()).sum()
    }

    /// Whether no key is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bound on the number of keys of each policy that sets none.
    #[must_use]
    pub fn max_keys(&self) -> usize {
        self.0.states.defaults().max_keys_or_default()
    }

    /// The bytes that lines and long states of all policies take, and the bound on them.
    #[must_use]
    pub fn memory_used(&self) -> (usize, usize) {
        let budget = self.0.states.budget();
        (budget.used(), budget.max())
    }

    /// Frees long states that have expired by the instant `at`. Decisions go on meanwhile.
    pub fn sweep(&self, at: Micros) {
        self.0.sweep(at);
    }

    #[inline(always)]
    fn id(&self, charge: &Charge<'_>) -> Id {
        self.0.secrets.id(charge.limit.scope(), charge.subject)
    }

    /// The line that may hold the key.
    #[inline(always)]
    fn find_fast(&self, scope: Scope, id: Id) -> Option<&Line> {
        let table = &self.0.states.known(scope.number())?.table;
        table.last_found(id).or_else(|| table.search(id))
    }

    /// Decides where one compare-and-swap on a line does not do.
    #[inline(never)]
    fn check_otherwise(&self, charge: &Charge<'_>, at: Micros) -> Result<Decision> {
        if charge.operation == Operation::Take {
            let id = self.id(charge);
            if let Some(states) = self.0.states.known(charge.limit.scope().number())
                && let Some(line) = states.table.find_again(id)
                && let Some(decision) =
                    line::charge(line, id, charge.rule(), Now::at(at), charge.cost)
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
        for PolicyStates { table, .. } in self.states.iter() {
            for index in 0..table.shards() {
                if let Some(mut shard) = table.lock(index) {
                    shard.free_expired(table, index, at, (0, usize::MAX));
                }
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
            && let Some(line) = self.find_fast(charge.limit.scope(), id)
        {
            // One try: what needs to wait is left to the other path, as is what is not here.
            match line::try_charge_word(line, id, (rule.quota_tag(), packed), now, charge.cost) {
                Charged::Granted { word, next } => return Ok(packed.granted(word, next, now)),
                Charged::Refused { word } => return Ok(packed.refused(word, now, charge.cost)),
                Charged::NotHere | Charged::Held | Charged::Beaten => {}
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
        let clock = Now::at(at).reading();
        let records = &self.0.states.of(first.limit).records;
        let id = records.hash(self.id(first), once.id);
        let mut partition = records.lock(&id, clock);
        if let Some(replayed) = records.replay((&partition, &id), (admission, clock))? {
            return Ok(replayed);
        }
        let mut room = None;
        let keep = |outcome: &Evidence, planned: &Plan| {
            if planned.admitted {
                let times = (clock, once.keep);
                room = Some(records.room((&mut partition, &id), (admission, outcome), times)?);
            }
            Ok(())
        };
        let (outcome, _) = self.admit_locked(admission.charges(), at, keep)?;
        if let Some(room) = room {
            partition.keep(room, &id);
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
            bounded_ids: true,
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

    fn usage(&self) -> Vec<PolicyUsage> {
        self.0.states.iter().map(PolicyStates::usage).collect()
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
