//! A store with one flaw of choice: what the suite must catch.

use std::collections::HashMap;
use std::sync::Mutex;

use tollgate_core::store::record::check_bound;
use tollgate_core::store::{
    BatchResults, CallContext, Capability, Evidence, Loaded, MultiKey, Plan, Store, TimeSource,
    plan, slots_of,
};
use tollgate_core::{
    Admission, Charge, Code, Decision, Error, Key, Micros, Now, QuotaId, Result, State, Words,
};
use tollgate_testkit::runtime::yield_now;

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Nothing: shows that it is the flaws that are caught.
    None,
    /// Reads, lets others run, and writes.
    LosesUpdates,
    /// Charges the limits of a combination that allow it, even if another denies.
    ChargesDeniedCombinations,
    /// Takes a state from the future for a fresh key.
    ForgetsOnStepBack,
    /// Forgets every state that has expired, without keeping up to when.
    ForgetsExpiredStates,
    /// A peek leaves a state.
    PeekWrites,
    /// A denial leaves a state.
    DenialWrites,
    /// Joins the parts of a key without escaping.
    JoinsKeysPlainly,
    /// Takes a state of another quota for a fresh key.
    ForgetsOnChange,
    /// Keeps a state under the newest quota alone.
    ForgetsOtherQuotas,
    /// Keeps a carried state only when the charge is allowed.
    CarriesOnlyWhenAllowed,
    /// Forgets a key after a minute, however slow its quota.
    ForgetsAfterAMinute,
    /// Never forgets, and reset does nothing.
    IgnoresReset,
    /// Decides by another time than it was given.
    RoundsTheTime,
    /// Answers a batch in reverse.
    ReversesBatches,
    /// Says that it keeps ids, but decides every copy.
    ForgetsIds,
    /// Compares ids without their payload.
    IgnoresPayloads,
    /// Ids are global.
    LeaksIds,
    /// Ids live for ever.
    KeepsIdsForEver,
    /// Saves denials.
    SavesDenials,
    /// Drops an old id to make room.
    DropsOldIds,
    /// Decides at once without charging.
    DecidesNowForFree,
    /// Denies a capability, but does it all the same.
    Lies,
}

/// Ids that are kept at once.
pub(crate) const RECORDS_MAX: usize = 40;

#[derive(Debug)]
pub(crate) struct FlawedStore {
    flaw: Flaw,
    kept: Mutex<Contents>,
}

#[derive(Debug, Default)]
struct Contents {
    /// State, when it was written, and when it is fresh again.
    states: HashMap<String, (State, Micros, Micros)>,
    records: Vec<Record>,
}

#[derive(Clone, Debug)]
struct Record {
    key: String,
    id: String,
    payload: String,
    until: Micros,
    outcome: Evidence,
}

impl FlawedStore {
    pub(crate) fn new(flaw: Flaw) -> Self {
        Self { flaw, kept: Mutex::default() }
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn text(&self, key: &Key<'_>) -> String {
        if self.is(Flaw::JoinsKeysPlainly) {
            return format!("{}:{}:{}", key.prefix, key.policy, key.subject.to_lowercase());
        }
        key.to_text()
    }

    fn now(&self, at: TimeSource) -> Result<Now> {
        match at {
            TimeSource::Given(micros) if self.is(Flaw::RoundsTheTime) => {
                Ok(Now::at(micros / 1_000 * 1_000))
            }
            TimeSource::Given(micros) => Ok(Now::at(micros)),
            TimeSource::StoreClock => Err(Error::new(Code::Unsupported, "no clock")),
        }
    }

    fn read(&self, text: &str, now: Now) -> Option<State> {
        let kept = self.kept.lock().unwrap();
        let (state, written, fresh_at) = kept.states.get(text)?;
        let forgotten = match self.flaw {
            Flaw::ForgetsOnStepBack => now.reading() < *written,
            Flaw::ForgetsAfterAMinute => now.reading() > written + 60_000_000,
            Flaw::ForgetsExpiredStates => *fresh_at == 0,
            _ => false,
        };
        (!forgotten).then(|| state.clone())
    }

    fn write(&self, text: &str, mut state: State, now: Now, fresh_at: Micros) {
        if self.is(Flaw::ForgetsOtherQuotas) {
            state.others.clear();
        }
        let mut kept = self.kept.lock().unwrap();
        if self.is(Flaw::ForgetsExpiredStates) {
            kept.states.retain(|_, (_, _, fresh_at)| *fresh_at > now.reading());
        }
        kept.states.insert(text.to_owned(), (state, now.reading(), fresh_at));
    }

    fn replay(&self, admission: &Admission<'_>, now: Now) -> Result<Option<Evidence>> {
        let Some(once) = admission.request_id else {
            return Ok(None);
        };
        if self.is(Flaw::ForgetsIds) {
            return Ok(None);
        }
        let key = self.record_key(admission);
        let kept = self.kept.lock().unwrap();
        let found = kept.records.iter().find(|record| {
            let alive = now.reading() < record.until || self.is(Flaw::KeepsIdsForEver);
            alive && record.id == once.id && record.key == key
        });
        match found {
            Some(record) if record.payload != admission.payload() => {
                if self.is(Flaw::IgnoresPayloads) {
                    return Ok(Some(record.outcome.clone()));
                }
                Err(Error::new(Code::IdempotencyConflict, "another payload"))
            }
            found => Ok(found.map(|record| record.outcome.clone())),
        }
    }

    fn keep(&self, admission: &Admission<'_>, now: Now, before: &[Option<State>]) -> Result<()> {
        let Some(once) = admission.request_id else {
            return Ok(());
        };
        let mut kept = self.kept.lock().unwrap();
        kept.records
            .retain(|record| now.reading() < record.until || self.is(Flaw::KeepsIdsForEver));
        if kept.records.len() >= RECORDS_MAX {
            if !self.is(Flaw::DropsOldIds) {
                return Err(Error::new(Code::QueueFull, "full"));
            }
            kept.records.remove(0);
        }
        let quota_ids: Vec<QuotaId> =
            admission.charges().iter().map(|c| c.rule().quota_id()).collect();
        kept.records.push(Record {
            key: self.record_key(admission),
            id: once.id.to_owned(),
            payload: admission.payload(),
            until: now.reading() + once.keep,
            outcome: Evidence::replayed(now, before.to_vec(), quota_ids),
        });
        Ok(())
    }

    fn record_key(&self, admission: &Admission<'_>) -> String {
        if self.is(Flaw::LeaksIds) {
            return String::new();
        }
        self.text(&admission.charges()[0].key())
    }

    /// The plan under the flaw, as the store makes it.
    fn plan(
        &self,
        charges: &[Charge<'_>],
        slots: &[usize],
        states: &[Option<State>],
        now: Now,
    ) -> Result<Plan> {
        if self.is(Flaw::ForgetsOnChange) {
            let mut states = states.to_vec();
            for (charge, slot) in charges.iter().zip(slots) {
                let same = |state: &State| state.quota_id == charge.rule().quota_id();
                states[*slot] = states[*slot].take().filter(same);
            }
            return plan(charges, slots, &states, now);
        }
        if self.is(Flaw::ChargesDeniedCombinations) {
            let whole = plan(charges, slots, states, now)?;
            let mut writes = Vec::new();
            for (charge, slot) in charges.iter().zip(slots) {
                let alone = plan(&[*charge], &[0], &[states[*slot].clone()], now)?;
                writes.extend(alone.writes.into_iter().map(|mut write| {
                    write.slot = *slot;
                    write
                }));
            }
            return Ok(Plan { writes, ..whole });
        }
        let mut plan = plan(charges, slots, states, now)?;
        if self.is(Flaw::CarriesOnlyWhenAllowed) && !plan.admitted {
            plan.writes.clear();
        }
        Ok(plan)
    }
}

impl Store for FlawedStore {
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = true;
        capability.multi_key =
            if self.is(Flaw::Lies) { MultiKey::Unsupported } else { MultiKey::Atomic };
        capability.idempotent = true;
        capability.in_process = true;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        check_bound(admission, false)?;
        let now = self.now(cx.time())?;
        if let Some(replay) = self.replay(admission, now)? {
            return Ok(replay);
        }
        let (slots, keys) = slots_of(admission.charges());
        let texts: Vec<String> = keys.iter().map(|key| self.text(key)).collect();
        let states: Vec<Option<State>> = texts.iter().map(|text| self.read(text, now)).collect();
        if self.is(Flaw::LosesUpdates) {
            yield_now().await;
        }
        let plan = self.plan(admission.charges(), &slots, &states, now)?;
        let before: Vec<Option<State>> = slots.iter().map(|slot| states[*slot].clone()).collect();
        if plan.admitted || self.is(Flaw::SavesDenials) {
            self.keep(admission, now, &before)?;
        }
        if !plan.admitted && self.is(Flaw::DenialWrites) {
            let quota_id = admission.charges()[0].rule().quota_id();
            let empty = State::new(quota_id, Words::new(&[]));
            self.write(&texts[0], states[0].clone().unwrap_or(empty), now, now.reading());
        }
        for write in plan.writes {
            self.write(&texts[write.slot], write.state, now, write.fresh_at);
        }
        Ok(Evidence::decided(now, before))
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let mut outcomes = Vec::new();
        for admission in batch {
            outcomes.push(self.admit(admission, cx).await);
        }
        if self.is(Flaw::ReversesBatches) {
            outcomes.reverse();
        }
        outcomes.into_iter().enumerate().for_each(|(index, outcome)| results.set(index, outcome));
    }

    fn decide_now(&self, charge: &Charge<'_>, at: Micros) -> Option<Result<Decision>> {
        let free = || charge.rule().step(&[], Now::at(at), charge.cost).decision;
        self.is(Flaw::DecidesNowForFree).then(|| Ok(free()))
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let now = self.now(cx.time())?;
        let texts: Vec<String> = charges.iter().map(|charge| self.text(&charge.key())).collect();
        let states = texts.iter().map(|text| self.read(text, now)).collect();
        if self.is(Flaw::PeekWrites) {
            let quota_id = QuotaId([1, 1, 1, 1]);
            let fresh = State::new(quota_id, Words::new(&[now.reading(), 0]));
            let mut kept = self.kept.lock().unwrap();
            for text in texts {
                kept.states.entry(text).or_insert_with(|| (fresh.clone(), 0, 0));
            }
        }
        Ok(Loaded::new(now, states))
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        if !self.is(Flaw::IgnoresReset) {
            self.kept.lock().unwrap().states.remove(&self.text(&key));
        }
        Ok(())
    }
}
