//! A store, a clock and a failure policy: what applications use.
//!
//! The limiter reads the clock once per call, calls the store for evidence, derives the decision
//! with the pure steps, and decides by the outage mode when the store cannot answer. It depends on
//! no algorithm and no backend.

mod builder;
mod derive;
mod failure;
mod observer;
mod peek;
mod sync;

use crate::charge::{Admission, Charge, Operation};
use crate::clock::Clock;
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::settled::Settled;
#[cfg(not(target_arch = "wasm32"))]
use crate::store::Memory;
use crate::store::{CallContext, CallFacts, Evidence, Store, TimeSource};
use crate::time::Micros;

pub use builder::LimiterBuilder;
pub use failure::{BreakerConfig, Share};
pub use observer::{Degradation, Observer, Stats};
pub use sync::SyncLimiter;

use builder::ClockSource;
use derive::Derived;
use failure::FailurePolicy;

/// Decides whether requests may pass, over any store.
///
/// Each verb takes one charge, several (all or nothing), or an [`Admission`] with a request id:
/// anything that becomes an admission. Over a store that never waits, [`Limiter::sync`] has the
/// same verbs without futures.
///
/// ```
/// use tollgate_core::{Limit, Limiter, Quota};
///
/// let limiter = Limiter::in_memory();
/// let api = Limit::gcra("api", Quota::per_minute(100))?;
/// let decision = limiter.sync().check(api.charge("ada"))?;
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining, 99);
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Limiter<S> {
    store: S,
    clock: ClockSource,
    failure: FailurePolicy,
    /// Whether the limiter made its store, and so closes it.
    made_store: bool,
}

#[cfg(not(target_arch = "wasm32"))]
impl Limiter<Memory> {
    /// A limiter over a memory store of its own, with the default bounds.
    #[must_use]
    pub fn in_memory() -> Self {
        let mut limiter = Self::new(Memory::new());
        limiter.made_store = true;
        limiter
    }
}

impl<S: Store> Limiter<S> {
    /// A limiter with the clock of the system and the default failure policy.
    #[cfg(not(target_arch = "wasm32"))]
    #[must_use]
    pub fn new(store: S) -> Self {
        Self::builder(store).build()
    }

    /// A limiter with settings of its own.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn builder(store: S) -> LimiterBuilder<S> {
        LimiterBuilder::new(store, ClockSource::system())
    }

    /// A limiter with another clock: a [`ManualClock`](crate::ManualClock) in tests, the host's in
    /// a Worker.
    pub fn with_clock(store: S, clock: impl Clock + 'static) -> LimiterBuilder<S> {
        LimiterBuilder::new(store, ClockSource::custom(clock))
    }

    /// Decides charges, all or nothing; under a request id, charges them at most once.
    ///
    /// # Errors
    /// When no decision could be made and the failure mode does not make one.
    #[inline]
    pub async fn check<'a>(&self, charges: impl Into<Admission<'a>>) -> Result<Decision> {
        let now = self.clock.now();
        let admission = charges.into();
        if let Some(decided) = self.decide_now(&admission, now) {
            return decided;
        }
        self.admit(&admission, now).await
    }

    /// Decides charges by the store or not at all: an outage is an error with its reason, and no
    /// outage mode decides. For probes.
    ///
    /// # Errors
    /// When the store cannot answer, or refuses.
    pub async fn check_in_store<'a>(&self, charges: impl Into<Admission<'a>>) -> Result<Decision> {
        let (admission, now) = (charges.into(), self.clock.now());
        not_empty(admission.charges())?;
        let (facts, keys) = (CallFacts::new(), keys_of(admission.charges()));
        let answer = self.call(now, &facts, keys, |cx| self.store.admit(&admission, cx)).await;
        let evidence = answer.map_err(|error| self.failure.explained(error))?;
        Ok(self.derive(&admission, &evidence, now)?.decision)
    }

    /// Decides independent admissions at one instant: in order, sharing round trips. Takes charges
    /// or admissions.
    ///
    /// # Errors
    /// Each element fails on its own.
    pub async fn check_batch<'a, A: Into<Admission<'a>>>(
        &self,
        batch: impl IntoIterator<Item = A>,
    ) -> Vec<Result<Decision>> {
        let batch: Vec<Admission<'a>> = batch.into_iter().map(Into::into).collect();
        let now = self.clock.now();
        let at_once = batch.iter().map_while(|admission| self.decide_now(admission, now));
        let mut decided: Vec<Result<Decision>> = at_once.collect();
        // From the first admission that has to wait on, so that the order is kept.
        let waiting = batch.get(decided.len()..).unwrap_or_default();
        decided.extend(self.admit_many(waiting, now).await);
        decided
    }

    /// Sets the final cost of charges: `charge.settle(receipt, to)`. Less than was charged is given
    /// back as far as it is still counted; more is charged, even beyond the ceiling, and later
    /// requests wait until that debt is worked off. It is never denied: what exceeds the
    /// [bound](crate::Limit::max_debt) of the debt is dropped, and reported.
    ///
    /// Settling a charge a second time applies it a second time: to apply it once however often it
    /// is sent, add a request id.
    ///
    /// # Errors
    /// When the store cannot answer; then nothing is known to be settled. `invalid_request` for a
    /// charge without a receipt.
    pub async fn settle<'a>(&self, settlements: impl Into<Admission<'a>>) -> Result<Settled> {
        let admission = settlements.into();
        only_settlements(admission.charges())?;
        let now = self.clock.now();
        let (facts, keys) = (CallFacts::new(), keys_of(admission.charges()));
        let answer = self.call(now, &facts, keys, |cx| self.store.admit(&admission, cx)).await?;
        self.derive(&admission, &answer, now).map(Derived::settled)
    }

    /// Gives back at most what charges took and is still counted: [settles](Self::settle) them for
    /// 0. Each charge says which one it gives back: `charge.refund(receipt)`.
    ///
    /// # Errors
    /// As [`Limiter::settle`]; `invalid_request` for a charge that is no refund.
    pub async fn refund<'a>(&self, refunds: impl Into<Admission<'a>>) -> Result<Settled> {
        let admission = refunds.into();
        only_refunds(admission.charges())?;
        self.settle(admission).await
    }

    /// Forgets what the keys of these charges spent, one key after the other. The costs of the
    /// charges do not matter, nor does a request id.
    ///
    /// # Errors
    /// When the store cannot answer; then the keys from the failed one on are as they were.
    pub async fn reset<'a>(&self, charges: impl Into<Admission<'a>>) -> Result<()> {
        let admission = charges.into();
        not_empty(admission.charges())?;
        for charge in admission.charges() {
            let (key, now) = (charge.key(), self.clock.now());
            self.call(now, &CallFacts::new(), [key], |cx| self.store.reset(key, cx)).await?;
            // Only now: a reset that failed must not hand out a fresh budget in an outage.
            self.failure.local.forget(key);
        }
        Ok(())
    }

    /// Closes the store if this limiter made it. A store that was handed in stays open.
    pub async fn close(&self) {
        if self.made_store {
            self.store.close().await;
        }
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Where the time of this limiter comes from.
    pub fn clock(&self) -> &dyn Clock {
        self.clock.as_dyn()
    }

    /// What happened so far.
    pub fn stats(&self) -> Stats {
        self.failure.stats()
    }

    /// Decides one charge if the store never waits.
    #[inline]
    fn decide_now(&self, admission: &Admission<'_>, now: Micros) -> Option<Result<Decision>> {
        self.store.decide_now(&admission.single_charge()?, now)
    }

    async fn admit(&self, admission: &Admission<'_>, now: Micros) -> Result<Decision> {
        not_empty(admission.charges())?;
        let (facts, keys) = (CallFacts::new(), keys_of(admission.charges()));
        let answer = self.call(now, &facts, keys, |cx| self.store.admit(admission, cx)).await;
        self.conclude(admission, answer, now)
    }

    async fn admit_many(&self, batch: &[Admission<'_>], now: Micros) -> Vec<Result<Decision>> {
        if batch.is_empty() {
            return Vec::new();
        }
        let at = (&self.clock, now, self.authority(now));
        let answers = self.failure.call_many(&self.store, at, batch).await;
        let decide = |(admission, answer): (&Admission<'_>, _)| {
            not_empty(admission.charges())?;
            self.conclude(admission, answer, now)
        };
        batch.iter().zip(answers).map(decide).collect()
    }

    /// Calls the store for these keys under the failure policy. The call records its facts in
    /// `facts`.
    async fn call<'c, 'k, T, F>(
        &'c self,
        now: Micros,
        facts: &'c CallFacts,
        keys: impl IntoIterator<Item = Key<'k>> + Clone,
        operation: impl Fn(CallContext<'c>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let at = (self.authority(now), facts);
        let endpoints = keys.clone().into_iter().map(|key| self.store.endpoint(key));
        let late = || self.failure.late_answer(&self.store, keys);
        self.failure.call((&self.clock, now), at, (endpoints, late), operation).await
    }

    /// From evidence to a decision; without evidence, what the failure mode says.
    fn conclude(
        &self,
        admission: &Admission<'_>,
        answer: Result<Evidence>,
        now: Micros,
    ) -> Result<Decision> {
        match answer {
            Ok(evidence) => Ok(self.derive(admission, &evidence, now)?.decision),
            Err(error) if error.is_outage() => {
                self.failure.decide_without_store(admission, &error, now)
            }
            Err(error) => Err(error),
        }
    }

    /// From evidence to a decision. The failure policy learns from it what this process may grant
    /// alone, and whether clocks disagree.
    fn derive(
        &self,
        admission: &Admission<'_>,
        evidence: &Evidence,
        now: Micros,
    ) -> Result<Derived> {
        let derived = derive::derive(admission, evidence)?;
        if !self.store.capability().in_process {
            self.failure.mirror(admission, evidence, now);
        }
        self.failure.watch_clocks(admission, evidence);
        self.failure.watch_debts(derived.each_settled());
        Ok(derived)
    }

    /// Whose clock decides: the store's if it has one.
    fn authority(&self, now: Micros) -> TimeSource {
        if self.store.capability().own_clock {
            TimeSource::StoreClock
        } else {
            TimeSource::Given(now)
        }
    }
}

fn not_empty(charges: &[Charge<'_>]) -> Result<()> {
    if charges.is_empty() {
        return Err(Error::invalid("charges", "an admission needs at least one charge"));
    }
    Ok(())
}

fn keys_of<'k>(charges: &'k [Charge<'k>]) -> impl Iterator<Item = Key<'k>> + Clone {
    charges.iter().map(Charge::key)
}

fn only_settlements(charges: &[Charge<'_>]) -> Result<()> {
    not_empty(charges)?;
    if charges.iter().any(|charge| charge.operation.takes()) {
        return Err(Error::invalid("charges", "settling needs charges with receipts"));
    }
    Ok(())
}

fn only_refunds(charges: &[Charge<'_>]) -> Result<()> {
    not_empty(charges)?;
    let is_refund =
        |charge: &Charge<'_>| matches!(charge.operation, Operation::Settle { to: 0, .. });
    if !charges.iter().all(is_refund) {
        return Err(Error::invalid("charges", "a refund needs charges with receipts"));
    }
    Ok(())
}
