//! The smallest correct store: a map behind a lock.
//!
//! It shows what the contract asks for and nothing else. Every act runs under one lock, so it is
//! atomic; nothing is evicted, so no time is forgotten; states and records are what `plan` says.
//! Real stores differ in how they make the same act atomic and in what they can afford to forget.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::store::record::check_bound;
use tollgate_core::store::{
    CallContext, Capability, Evidence, Loaded, MultiKey, Store, TimeSource, plan, slots_of,
};
use tollgate_core::{
    Admission, Charge, Code, Error, Key, Micros, Now, QuotaId, RequestId, Result, State,
};

/// How many request ids are kept at once unless told otherwise.
const RECORDS_MAX: usize = 100_000;

/// A store for one process, slow and obvious.
#[derive(Debug)]
pub struct ReferenceStore {
    kept: Mutex<Contents>,
    records_max: usize,
}

#[derive(Debug, Default)]
struct Contents {
    states: HashMap<String, State>,
    /// Request ids, each scoped to the key of the first charge it came with.
    records: HashMap<(String, String), Record>,
}

/// What is needed to derive the same decision again.
#[derive(Clone, Debug)]
struct Record {
    payload: String,
    until: Micros,
    now: Now,
    before: Vec<Option<State>>,
    quota_ids: Vec<QuotaId>,
}

impl Default for ReferenceStore {
    fn default() -> Self {
        Self::new()
    }
}

impl ReferenceStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with_records_max(RECORDS_MAX)
    }

    /// An empty store with a bound for the number of its request ids.
    #[must_use]
    pub fn with_records_max(records_max: usize) -> Self {
        Self { kept: Mutex::default(), records_max }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit_now(&self, admission: &Admission<'_>, now: Now) -> Result<Evidence> {
        check_bound(admission, false)?;
        let mut kept = self.lock();
        if let Some(replay) = kept.replay(admission, now)? {
            return Ok(replay);
        }
        let (slots, keys) = slots_of(admission.charges());
        let texts: Vec<String> = keys.iter().map(Key::to_text).collect();
        let states: Vec<Option<State>> =
            texts.iter().map(|text| kept.states.get(text).cloned()).collect();
        let plan = plan(admission.charges(), &slots, &states, now)?;
        let before: Vec<Option<State>> =
            slots.iter().map(|slot| states.get(*slot).cloned().flatten()).collect();
        // Only a charge is kept: an id that was denied is decided anew.
        if let Some(once) = admission.request_id.filter(|_| plan.admitted) {
            kept.keep(admission, once, (now, &before), self.records_max)?;
        }
        for write in plan.writes {
            if let Some(text) = texts.get(write.slot) {
                kept.states.insert(text.clone(), write.state);
            }
        }
        Ok(Evidence::decided(now, before))
    }
}

impl Contents {
    /// The evidence of the first time, if this id was charged before.
    fn replay(&self, admission: &Admission<'_>, now: Now) -> Result<Option<Evidence>> {
        let record = record_key(admission).and_then(|key| self.records.get(&key));
        let Some(record) = record.filter(|record| now.effective() < record.until) else {
            return Ok(None);
        };
        if record.payload != admission.payload() {
            let message = "the request id was used before for another request on this key";
            return Err(Error::new(Code::IdempotencyConflict, message));
        }
        let Record { now, before, quota_ids, .. } = record.clone();
        Ok(Some(Evidence::replayed(now, before, quota_ids)))
    }

    fn keep(
        &mut self,
        admission: &Admission<'_>,
        request_id: RequestId<'_>,
        (now, before): (Now, &[Option<State>]),
        records_max: usize,
    ) -> Result<()> {
        self.records.retain(|_, record| now.effective() < record.until);
        if self.records.len() >= records_max {
            return Err(Error::new(Code::QueueFull, "too many request ids are kept"));
        }
        let record = Record {
            payload: admission.payload(),
            until: now.effective().saturating_add(request_id.keep),
            now,
            before: before.to_vec(),
            quota_ids: admission.charges().iter().map(|charge| charge.rule().quota_id()).collect(),
        };
        if let Some(key) = record_key(admission) {
            self.records.insert(key, record);
        }
        Ok(())
    }
}

fn record_key(admission: &Admission<'_>) -> Option<(String, String)> {
    let (once, first) = (admission.request_id?, admission.charges().first()?);
    Some((first.key().to_text(), once.id.to_owned()))
}

impl Store for ReferenceStore {
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = true;
        capability.multi_key = MultiKey::Atomic;
        capability.idempotent = true;
        capability.in_process = true;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.admit_now(admission, reading(cx)?)
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let kept = self.lock();
        let states = charges
            .iter()
            .map(|charge| kept.states.get(&charge.key().to_text()).cloned())
            .collect();
        Ok(Loaded::new(reading(cx)?, states))
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        self.lock().states.remove(&key.to_text());
        Ok(())
    }
}

/// This store has no clock of its own.
fn reading(cx: CallContext<'_>) -> Result<Now> {
    match cx.time() {
        TimeSource::Given(micros) => Ok(Now::at(micros)),
        TimeSource::StoreClock => {
            Err(Error::new(Code::Unsupported, "this store has no clock: pass the time"))
        }
    }
}
