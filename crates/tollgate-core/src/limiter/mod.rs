//! A store, a clock and a failure policy: what applications talk to.
//!
//! The limiter reads the clock once per call, asks the store for evidence, derives the decision
//! with the pure steps, and says what happens when the store cannot answer. It knows no algorithm
//! and no backend.

mod builder;
mod combine;
mod failure;
mod look;
mod observer;
mod sync;

use crate::charge::{Admission, Charge, Limit, Receipt};
use crate::clock::Clock;
use crate::decision::Decision;
use crate::error::{Error, Result};
#[cfg(not(target_arch = "wasm32"))]
use crate::store::Memory;
use crate::store::{BatchResults, CallContext, CallFacts, Evidence, Store, TimeSource};
use crate::time::Micros;

pub use builder::LimiterBuilder;
pub use combine::Combined;
pub use failure::{BreakerConfig, Share};
pub use observer::{Degradation, Observer, Stats};

use builder::ClockSource;
use failure::FailurePolicy;

/// Decides whether requests may pass, over any store.
#[derive(Debug)]
pub struct Limiter<S> {
    store: S,
    clock: ClockSource,
    failure: FailurePolicy,
    /// Whether the limiter made its store, and so closes it.
    made_store: bool,
}

/// What a refund gave back, and how the key stands after it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refunded {
    /// Units given back.
    pub units: u64,
    /// How the key stands now.
    pub standing: Decision,
}

impl From<Combined> for Refunded {
    fn from(combined: Combined) -> Self {
        Self { units: combined.refunded, standing: combined.decision }
    }
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

    /// Decides one charge.
    ///
    /// # Errors
    /// When no decision could be made and the failure mode does not make one.
    #[inline]
    pub async fn check(&self, charge: Charge<'_>) -> Result<Decision> {
        let now = self.clock.now();
        if let Some(decided) = self.store.decide_now(&charge, now) {
            return decided;
        }
        self.admit(&Admission::of(&[charge]), now).await
    }

    /// Decides one charge at once if the store never waits; else `None`, and nothing was charged.
    /// For callers that would rather not hold a future.
    ///
    /// # Errors
    /// As [`Limiter::check`].
    #[inline]
    pub fn check_now(&self, charge: Charge<'_>) -> Option<Result<Decision>> {
        self.store.decide_now(&charge, self.clock.now())
    }

    /// Decides several charges, all or nothing, perhaps only once.
    ///
    /// # Errors
    /// When no decision could be made and the failure mode does not make one.
    pub async fn check_all(&self, admission: &Admission<'_>) -> Result<Decision> {
        self.admit(admission, self.clock.now()).await
    }

    /// Decides several charges, and also tells the decision of each: the receipts to refund them by.
    ///
    /// # Errors
    /// As [`Limiter::check_all`].
    pub async fn check_parts(&self, admission: &Admission<'_>) -> Result<Combined> {
        self.admit_parts(admission, self.clock.now()).await
    }

    /// Decides independent charges at one instant: in order, sharing round trips.
    ///
    /// # Errors
    /// Each element fails on its own.
    pub async fn check_many(&self, charges: &[Charge<'_>]) -> Vec<Result<Decision>> {
        let now = self.clock.now();
        let at_once = charges.iter().map_while(|charge| self.store.decide_now(charge, now));
        let mut decided: Vec<Result<Decision>> = at_once.collect();
        // From the first charge that has to wait on, so that the order is kept.
        let waiting = charges.iter().skip(decided.len());
        let batch: Vec<Admission<'_>> =
            waiting.map(|charge| Admission::of(core::slice::from_ref(charge))).collect();
        decided.extend(self.admit_many(&batch, now).await);
        decided
    }

    /// Decides independent admissions at one instant: in order, sharing round trips.
    ///
    /// # Errors
    /// Each element fails on its own.
    pub async fn check_all_many(&self, batch: &[Admission<'_>]) -> Vec<Result<Decision>> {
        self.admit_many(batch, self.clock.now()).await
    }

    /// Gives back at most what a charge took and is still counted. Asked twice, it gives back twice:
    /// to give back once however often it is sent, use [`Limiter::check_parts`] with
    /// `charge.refund(receipt)` and a request id.
    ///
    /// # Errors
    /// When the store cannot answer; then nothing is known to be given back.
    pub async fn refund(&self, charge: Charge<'_>, receipt: Receipt) -> Result<Refunded> {
        let charges = [charge.refund(receipt)];
        let admission = Admission::of(&charges);
        let now = self.clock.now();
        let answer =
            self.call(now, &CallFacts::new(), |cx| self.store.admit(&admission, cx)).await?;
        combine::derive(&admission, &answer).map(Refunded::from)
    }

    /// Forgets what a subject spent under a limit.
    ///
    /// # Errors
    /// When the store cannot answer.
    pub async fn reset(&self, limit: &Limit, subject: &str) -> Result<()> {
        let now = self.clock.now();
        self.call(now, &CallFacts::new(), |cx| self.store.reset(limit.key(subject), cx)).await?;
        // Only now: a reset that failed must not hand out a fresh budget in an outage.
        self.failure.forget(limit.key(subject));
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

    async fn admit(&self, admission: &Admission<'_>, now: Micros) -> Result<Decision> {
        self.admit_parts(admission, now).await.map(|combined| combined.decision)
    }

    async fn admit_parts(&self, admission: &Admission<'_>, now: Micros) -> Result<Combined> {
        not_empty(admission.charges)?;
        let answer = self.call(now, &CallFacts::new(), |cx| self.store.admit(admission, cx)).await;
        self.conclude(admission, answer, now)
    }

    async fn admit_many(&self, batch: &[Admission<'_>], now: Micros) -> Vec<Result<Decision>> {
        if batch.is_empty() {
            return Vec::new();
        }
        let (facts, results) = (CallFacts::new(), BatchResults::new(batch.len()));
        let answer = self.failure.call(
            (&self.clock, now),
            (self.authority(now), &facts),
            |cx| {
                let results = &results;
                async move {
                    self.store.admit_many(batch, results, cx).await;
                    results.completed()
                }
            },
            || results.expired(),
        );
        let answers = match answer.await {
            Ok(answers) => answers,
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        };
        let decide = |(admission, answer)| {
            self.conclude(admission, answer, now).map(|combined| combined.decision)
        };
        batch.iter().zip(answers).map(decide).collect()
    }

    /// Calls the store under the failure policy. The call records its facts in `facts`.
    async fn call<'c, T, F>(
        &'c self,
        now: Micros,
        facts: &'c CallFacts,
        operation: impl Fn(CallContext<'c>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let at = (self.authority(now), facts);
        let expired = || Err(facts.expired());
        self.failure.call((&self.clock, now), at, operation, expired).await.flatten()
    }

    /// From evidence to a decision; without evidence, what the failure mode says.
    fn conclude(
        &self,
        admission: &Admission<'_>,
        answer: Result<Evidence>,
        now: Micros,
    ) -> Result<Combined> {
        not_empty(admission.charges)?;
        match answer {
            Ok(outcome) => {
                let combined = combine::derive(admission, &outcome)?;
                if !self.store.capability().in_process {
                    self.failure.mirror(admission, &outcome, now);
                }
                self.failure.watch_clocks(admission, &outcome);
                Ok(combined)
            }
            Err(error) if error.is_outage() => {
                let decision = self.failure.decide_without_store(admission, &error, now)?;
                Ok(Combined { decision, parts: Vec::new(), refunded: 0 })
            }
            Err(error) => Err(error),
        }
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
