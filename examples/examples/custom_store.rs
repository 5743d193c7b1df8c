//! You learn: a store is anything that applies steps atomically to keys. Yours contains no
//! rate-limiting arithmetic, and the public conformance suite proves it correct.
//!
//! A backend that can compare and swap needs less than this: implement `Versioned`, wrap it in
//! `Cas` (as `src/lib.rs` beside these examples does).
//!
//! Run it: `cargo run -p tollgate-examples --example custom_store`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::algorithm::SlidingWindow;
use tollgate::authoring::{Key, Now, State};
use tollgate::store::{
    CallContext, Capability, Evidence, Loaded, MultiKey, Store, TimeSource, plan, slots_of,
};
use tollgate::{Admission, Charge, Code, Error, Limit, Limiter, Quota, Result};
use tollgate_testkit::conformance;
use tollgate_testkit::runtime::block_on;

/// States in a sorted map behind one lock. It never deletes a state, so time never goes back.
#[derive(Debug, Default)]
struct Ledger(Mutex<BTreeMap<String, State>>);

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Ledger {
    /// A store refuses what its capability excludes: here request ids and a clock of its own.
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = true;
        capability.multi_key = MultiKey::Atomic;
        capability
    }

    /// One atomic operation: read, decide by the pure steps, write all next states or none.
    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        if admission.request_id.is_some() {
            return Err(unsupported("this store has no request ids"));
        }
        let now = given(cx)?;
        let (slots, keys) = slots_of(admission.charges());
        let mut ledger = self.lock();
        let states: Vec<Option<State>> =
            keys.iter().map(|key| ledger.get(&key.to_text()).cloned()).collect();
        let planned = plan(admission.charges(), &slots, &states, now)?;
        for write in planned.writes {
            if let Some(key) = keys.get(write.slot) {
                ledger.insert(key.to_text(), write.state);
            }
        }
        // The answer is evidence, from which the limiter derives the decision.
        let before: Vec<_> =
            slots.iter().map(|slot| states.get(*slot).cloned().flatten()).collect();
        Ok(Evidence::decided(now, before))
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let ledger = self.lock();
        let states =
            charges.iter().map(|charge| ledger.get(&charge.key().to_text()).cloned()).collect();
        Ok(Loaded::new(given(cx)?, states))
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        self.lock().remove(&key.to_text());
        Ok(())
    }
}

fn given(cx: CallContext<'_>) -> Result<Now> {
    match cx.time() {
        TimeSource::Given(reading) => Ok(Now::at(reading)),
        TimeSource::StoreClock => Err(unsupported("this store has no clock")),
    }
}

fn unsupported(message: &str) -> Error {
    Error::new(Code::Unsupported, message)
}

fn main() -> Result<()> {
    let clauses = block_on(conformance::run(&Ledger::default(), conformance::Options::default()));
    println!("{} clauses kept, those named above only because they do not apply", clauses.len());

    let limit = Limit::new("hello", SlidingWindow::new(Quota::per_minute(2))?)?;
    let limiter = Limiter::new(Ledger::default());
    for _ in 0..3 {
        println!("{}", block_on(limiter.check(limit.charge("ada")))?.verdict.as_str());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    // In a crate of your own this is all you need: one test per clause.
    tollgate_testkit::store_conformance!(|| std::future::ready(super::Ledger::default()));
}
