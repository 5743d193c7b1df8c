//! A correct store that forgets: the suite must not mistake a floor for a flaw.
//!
//! It drops every expired state at every call and never decides earlier than the time up to which
//! it has dropped any, as a bounded in-memory store does.

use std::collections::HashMap;
use std::sync::Mutex;

use tollgate_core::store::{
    CallContext, Capability, Evidence, Loaded, Store, TimeSource, plan, slots_of,
};
use tollgate_core::{Admission, Charge, Code, Decision, Error, Key, Micros, Now, Result, State};
use tollgate_testkit::derive::decisions_of;

#[derive(Debug, Default)]
pub(crate) struct ReclaimingStore(Mutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    states: HashMap<String, (State, Micros)>,
    floor: Micros,
}

impl Contents {
    /// Forgets what has expired by this reading, and the instant to decide at.
    fn reclaim(&mut self, at: TimeSource) -> Result<Now> {
        let TimeSource::Given(reading) = at else {
            return Err(Error::new(Code::Unsupported, "no clock"));
        };
        let now = Now::at(reading);
        let floor = &mut self.floor;
        self.states.retain(|_, (_, fresh_at)| {
            let alive = *fresh_at > now.reading();
            if !alive {
                *floor = (*floor).max(*fresh_at);
            }
            alive
        });
        Ok(now.not_before(self.floor))
    }

    fn state(&self, text: &str) -> Option<State> {
        self.states.get(text).map(|(state, _)| state.clone())
    }
}

impl Store for ReclaimingStore {
    /// Admits over one key, and keeps no ids.
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = true;
        capability.in_process = true;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.admit_now(admission, cx.time())
    }

    fn decide_now(&self, charge: &Charge<'_>, at: Micros) -> Option<Result<Decision>> {
        let charges = [*charge];
        let admission = Admission::of(&charges);
        let outcome = self.admit_now(&admission, TimeSource::Given(at));
        let plan = outcome.and_then(|outcome| decisions_of(&admission, &outcome));
        Some(plan.map(|mut plan| plan.decisions.remove(0)))
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let mut kept = self.0.lock().unwrap();
        let now = kept.reclaim(cx.time())?;
        let states = charges.iter().map(|charge| kept.state(&charge.key().to_text())).collect();
        Ok(Loaded::new(now, states))
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        self.0.lock().unwrap().states.remove(&key.to_text());
        Ok(())
    }
}

impl ReclaimingStore {
    fn admit_now(&self, admission: &Admission<'_>, at: TimeSource) -> Result<Evidence> {
        if admission.charges().len() > 1 || admission.request_id.is_some() {
            return Err(Error::new(Code::Unsupported, "one charge without an id"));
        }
        let mut kept = self.0.lock().unwrap();
        let now = kept.reclaim(at)?;
        let (slots, keys) = slots_of(admission.charges());
        let texts: Vec<String> = keys.iter().map(Key::to_text).collect();
        let states: Vec<Option<State>> = texts.iter().map(|text| kept.state(text)).collect();
        for write in plan(admission.charges(), &slots, &states, now)?.writes {
            kept.states.insert(texts[write.slot].clone(), (write.state, write.fresh_at));
        }
        Ok(Evidence::decided(now, states))
    }
}
