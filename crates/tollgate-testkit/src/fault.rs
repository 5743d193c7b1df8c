//! A store that fails on purpose, in the ways that networks do.
//!
//! [`Faulty`] wraps any store. A plan, scripted or seeded, says what happens to each call: it may
//! fail before anything was sent, fail after it was applied (the caller cannot know), be delayed on
//! a clock that a test moves, hang for ever, lose to others until its time is up, be refused with a
//! code, or answer garbage. So failure policies are tested without a network and without sleeping.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tollgate_core::clock::sleep_until;
use tollgate_core::store::{
    BatchResults, CallContext, Capability, Endpoint, Evidence, LastAnswer, Loaded, Store,
    admit_many,
};
use tollgate_core::{
    Admission, Charge, Clock, Code, Error, Key, ManualClock, Micros, Now, QuotaId, Result, State,
    Words,
};

use crate::rng::Rng;

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: the call passes.
    None,
    /// Fails before anything reached the store: trying again cannot charge twice.
    Before,
    /// Is applied, and then fails: the outcome is unknown to the caller.
    After,
    /// Is applied once the clock has moved by this many microseconds.
    Delay(Micros),
    /// Never answers, and applies nothing.
    Hang,
    /// Loses races for ever, and applies nothing: when its time is up it says that others were in
    /// the way.
    Lose,
    /// Is refused as an operation that this store does not support, before it was sent.
    Refuse,
    /// Is refused by the store with this code, and applies nothing.
    Reject(Code),
    /// Answers something that fits no admission, and applies nothing.
    Garbage,
}

/// A store whose calls fail as planned.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    clock: ManualClock,
    plan: Mutex<Plan>,
}

#[derive(Debug)]
struct Plan {
    script: VecDeque<Fault>,
    /// After the script: random faults out of 1,000 calls, or none.
    random: Option<(Rng, u64)>,
    calls: u64,
}

impl<S> Faulty<S> {
    /// Calls meet these faults in order; once they are used up, every call passes.
    pub fn scripted(inner: S, clock: ManualClock, faults: impl IntoIterator<Item = Fault>) -> Self {
        Self::planned(inner, clock, faults.into_iter().collect(), None)
    }

    /// Of 1,000 calls about `per_mille` fail, each in a way drawn from the seed.
    pub fn seeded(inner: S, clock: ManualClock, seed: u64, per_mille: u64) -> Self {
        Self::planned(inner, clock, VecDeque::new(), Some((Rng::new(seed), per_mille)))
    }

    const fn planned(
        inner: S,
        clock: ManualClock,
        script: VecDeque<Fault>,
        random: Option<(Rng, u64)>,
    ) -> Self {
        Self { inner, clock, plan: Mutex::new(Plan { script, random, calls: 0 }) }
    }

    /// Appends faults for the next calls.
    pub fn then(&self, faults: impl IntoIterator<Item = Fault>) {
        self.with_plan(|plan| plan.script.extend(faults));
    }

    /// How many calls were made, failed ones included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.with_plan(|plan| plan.calls)
    }

    /// The store behind the faults.
    #[must_use]
    pub const fn inner(&self) -> &S {
        &self.inner
    }

    fn with_plan<T>(&self, act: impl FnOnce(&mut Plan) -> T) -> T {
        act(&mut self.plan.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn next_fault(&self) -> Fault {
        self.with_plan(|plan| {
            plan.calls += 1;
            if let Some(fault) = plan.script.pop_front() {
                return fault;
            }
            let Some((rng, per_mille)) = &mut plan.random else {
                return Fault::None;
            };
            if rng.below(1_000) >= *per_mille {
                return Fault::None;
            }
            let delay = Fault::Delay(rng.below(1_000_000));
            let faults = [Fault::Before, Fault::After, delay, Fault::Hang, Fault::Garbage];
            rng.pick(&faults, Fault::Before)
        })
    }

    /// Runs a call under its fault; `garbage` makes an answer that fits nothing.
    async fn call<T>(
        &self,
        cx: CallContext<'_>,
        call: impl Future<Output = Result<T>>,
        garbage: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match self.next_fault() {
            Fault::None => call.await,
            Fault::Before => Err(lost("refused the connection").not_sent()),
            Fault::After => {
                call.await?;
                Err(lost("lost the connection"))
            }
            Fault::Delay(micros) => {
                let until = self.clock.now().saturating_add(micros);
                sleep_until(&self.clock, until).await;
                call.await
            }
            Fault::Hang => std::future::pending().await,
            Fault::Lose => {
                cx.lost_race();
                std::future::pending().await
            }
            Fault::Refuse => {
                Err(Error::new(Code::Unsupported, "a planned fault refused this").not_sent())
            }
            Fault::Reject(code) => {
                Err(Error::new(code, "a planned fault refused this; nothing was charged")
                    .not_sent())
            }
            Fault::Garbage => garbage(),
        }
    }
}

fn lost(how: &str) -> Error {
    Error::new(Code::StoreUnavailable, format!("a planned fault {how}"))
}

/// A state that no algorithm accepts, under a shape that no algorithm has.
fn nonsense(count: usize) -> Vec<Option<State>> {
    let state = State::new(QuotaId([u64::MAX; 4]), Words::new(&[u64::MAX; 5]));
    vec![Some(state); count]
}

impl<S: Store> Store for Faulty<S> {
    fn endpoint(&self, key: Key<'_>) -> Endpoint {
        self.inner.endpoint(key)
    }

    fn last_answer(&self, key: Key<'_>) -> Option<LastAnswer> {
        self.inner.last_answer(key)
    }

    fn capability(&self) -> Capability {
        let mut capability = self.inner.capability();
        // A store that can fail is never taken for one that cannot.
        capability.in_process = false;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        let garbage = || Ok(Evidence::decided(Now::at(0), nonsense(admission.charges().len())));
        self.call(cx, self.inner.admit(admission, cx), garbage).await
    }

    /// One round trip, so one fault for the whole batch.
    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let call = async { Ok(admit_many(&self.inner, batch, cx).await) };
        let answers = match self.call(cx, call, || Ok(Vec::new())).await {
            Ok(answers) => answers,
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        };
        answers.into_iter().enumerate().for_each(|(index, answer)| results.set(index, answer));
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let garbage = || Ok(Loaded::new(Now::at(0), nonsense(charges.len())));
        self.call(cx, self.inner.load(charges, cx), garbage).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.call(cx, self.inner.reset(key, cx), || Ok(())).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
