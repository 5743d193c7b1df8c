//! The store contract: anything that can apply steps atomically to keys.
//!
//! One act carries everything: [`Store::admit`] runs the steps of an admission in order and writes
//! all next states or none, together with the record of its request id. It returns evidence (the
//! instant and the states before), not decisions: the limiter derives those with the same pure
//! steps, so all rounding happens in one language and a scripted store replies with little.

mod backoff;
mod batch;
mod call_limit;
pub mod cas;
#[cfg(test)]
mod changed_quotas;
pub mod compensate;
mod context;
pub mod detach;
mod endpoint;
mod erased;
mod id_shares;
pub mod memory;
mod owner;
pub mod parameters;
mod plan;
mod ranges;
mod retries;
mod settle;

use core::future::Future;

use crate::charge::{Admission, Charge};
use crate::decision::Decision;
use crate::error::Result;
use crate::key::Key;
use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::state::{QuotaId, State};
use crate::time::{Micros, Now};

pub use backoff::{Backoff, Jitter};
pub use batch::{BatchResults, admit_many, one_by_one};
pub use call_limit::{CallLimit, CallPermit};
pub use cas::Cas;
pub use context::{CallContext, CallFacts};
pub use endpoint::{Endpoint, LastAnswer};
pub use erased::{BoxStore, StoreDyn};
pub use memory::{Bounds, Memory, PolicyUsage, WhenFull, WhenIdsFull};
pub use owner::Owner;
pub(crate) use plan::words_under;
pub use plan::{Plan, SlotWrite, plan, slots_of};
pub use retries::Retries;

/// Many admissions over values that a store holds: by a lock, or in a transaction.
pub mod round {
    pub use super::cas::round::{Decided, Round, RoundBounds, ValueName, ValueWrite, state_in};
    pub use super::id_shares::{Forget, IdShares, ReservedIds};
}

/// How request ids are kept in text, for stores that write records without the adapter.
pub mod record {
    pub use super::cas::bounds::check_bound;
    pub use super::cas::record::{
        RequestIdKey, SETTLED, evidence_text, is_name, is_of_settlement, name, replay, replay_at,
        request_id_key, value,
    };
}

/// Which clock decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// The store's own clock. Only for stores whose capability says that they have one.
    StoreClock,
    /// The caller's reading, in microseconds.
    Given(Micros),
}

/// What a store did: enough to derive every decision with the pure steps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evidence {
    /// The instant the store decided at.
    pub now: Now,
    /// The state of each charge's key before the admission, in the order of the charges.
    pub before: Vec<Option<State>>,
    /// For a replayed request id: the quotas of the first time, in the order of the charges.
    pub replayed: Option<Vec<QuotaId>>,
    /// The instant of each charge, if they were not all decided at one: settlements on keys that no
    /// single act can change.
    pub instants: Option<Box<[Now]>>,
}

impl Evidence {
    /// The evidence of an admission that was decided now.
    #[must_use]
    pub const fn decided(now: Now, before: Vec<Option<State>>) -> Self {
        Self { now, before, replayed: None, instants: None }
    }

    /// The evidence of an admission that was charged earlier under the same request id.
    #[must_use]
    pub const fn replayed(now: Now, before: Vec<Option<State>>, quota_ids: Vec<QuotaId>) -> Self {
        Self { now, before, replayed: Some(quota_ids), instants: None }
    }

    /// The same evidence of charges that were decided at these instants.
    #[must_use]
    pub fn at_instants(mut self, instants: Vec<Now>) -> Self {
        let differ = instants.iter().any(|instant| *instant != self.now);
        self.instants = differ.then(|| instants.into());
        self
    }
}

/// What [`Store::load`] read, without changing anything.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// The instant of the reading.
    pub now: Now,
    /// The state of each key, in the order of the keys.
    pub states: Vec<Option<State>>,
}

impl Loaded {
    /// What was read at an instant.
    #[must_use]
    pub const fn new(now: Now, states: Vec<Option<State>>) -> Self {
        Self { now, states }
    }
}

/// How a store admits over several keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MultiKey {
    /// One atomic act over any keys.
    Atomic,
    /// Charged in a fixed order and undone exactly on a later denial: never over-admits, may
    /// briefly under-admit.
    Compensated,
    /// Not at all: answers `unsupported`.
    #[default]
    Unsupported,
}

/// What a store can do. Conformance clauses select themselves by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capability {
    /// Never admits more than the quota, under any concurrency.
    pub exact: bool,
    /// States survive a restart of this process.
    pub durable: bool,
    /// Decides by a clock of its own, so that the skew of nodes does not matter.
    pub own_clock: bool,
    /// Runs built-in steps on the server.
    pub scripted: bool,
    /// How it admits over several keys.
    pub multi_key: MultiKey,
    /// Remembers request ids.
    pub idempotent: bool,
    /// Bounds how many request ids it remembers for a policy that says so
    /// ([`Bounds::max_request_ids`]). Other stores refuse a request id under such a limit.
    pub bounded_ids: bool,
    /// Answers from this process, without waiting: it cannot have an outage.
    pub in_process: bool,
    /// The largest state it can keep, in bytes of text; 0 for no bound of its own.
    pub max_state_bytes: u32,
}

/// Applies steps atomically to keys.
///
/// Each call has a [`CallContext`]: whose clock decides, until when the caller waits, and where the
/// call records what happened to it. A caller that waits until its deadline takes the store to be
/// down, unless the call has recorded that others were in its way. So a store whose calls wait for
/// each other, or are repeated after lost races, records it: the combiner and the adapter [`Cas`]
/// do.
pub trait Store: MaybeSend + MaybeSync {
    /// What this store can do. Read at every call: return a constant.
    fn capability(&self) -> Capability;

    /// Runs the steps of an admission in order; writes all next states or none.
    fn admit(
        &self,
        admission: &Admission<'_>,
        cx: CallContext<'_>,
    ) -> impl Future<Output = Result<Evidence>> + MaybeSend;

    /// Independent admissions at one instant that may share a round trip. Those that share a key
    /// are applied in order.
    ///
    /// Each answer is put into its slot of `results` as soon as it is there, because the caller may
    /// stop waiting before all of them are. When the future completes, every slot is filled.
    fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) -> impl Future<Output = ()> + MaybeSend {
        one_by_one(self, batch, results, cx)
    }

    /// Reads the states of the charges' keys for peek and forecast. Never writes. The rules are
    /// there because what a store has forgotten, or how it keeps a state, may depend on them.
    fn load(
        &self,
        charges: &[Charge<'_>],
        cx: CallContext<'_>,
    ) -> impl Future<Output = Result<Loaded>> + MaybeSend;

    /// Forgets a key. Its request ids are kept until they expire.
    fn reset(
        &self,
        key: Key<'_>,
        cx: CallContext<'_>,
    ) -> impl Future<Output = Result<()>> + MaybeSend;

    /// Releases connections and background work.
    fn close(&self) -> impl Future<Output = ()> + MaybeSend {
        async {}
    }

    /// How many calls the backend has received so far, for operators: over admissions, how many of
    /// them share a round trip. Nothing for stores that do not count, or have no backend.
    fn round_trips(&self) -> Option<u64> {
        None
    }

    /// How many request ids this process has made the store forget before they expired, for
    /// operators.
    fn forgotten_request_ids(&self) -> u64 {
        self.usage().iter().map(|policy| policy.forgotten_request_ids).sum()
    }

    /// What is kept in this process for each policy, for operators. Nothing for stores that keep it
    /// elsewhere.
    fn usage(&self) -> Vec<PolicyUsage> {
        Vec::new()
    }

    /// The server that holds a key, as far as it is known now. Called before each call, so that the
    /// breaker of that server alone decides whether the call is made. By default there is one.
    fn endpoint(&self, key: Key<'_>) -> Endpoint {
        let _ = key;
        Endpoint::FIRST
    }

    /// The last answer of the server that holds a key, if it came within the last second, to a
    /// caller that still waited or not. So a limiter tells a server that answers later than its
    /// deadline from one that does not answer. Nothing for stores that do not measure.
    fn last_answer(&self, key: Key<'_>) -> Option<LastAnswer> {
        let _ = key;
        None
    }

    /// Decides one charge at once, for stores that never wait. `None` sends it through `admit`.
    #[inline]
    fn decide_now(&self, charge: &Charge<'_>, at: Micros) -> Option<Result<Decision>> {
        let _ = (charge, at);
        None
    }
}

/// A store that decides without waiting. Synchronous checks are limited to these by type.
pub trait SyncStore: Store {
    /// Decides one charge; equal to [`Store::admit`] decision by decision.
    ///
    /// # Errors
    /// `corrupt_state` when the key holds the state of an unknown algorithm.
    fn check_sync(&self, charge: &Charge<'_>, at: Micros) -> Result<Decision>;

    /// Decides an admission of several charges, all or nothing, perhaps only once.
    ///
    /// # Errors
    /// As [`Store::admit`].
    fn admit_sync(&self, admission: &Admission<'_>, at: Micros) -> Result<Evidence>;

    /// [`Store::load`].
    fn load_sync(&self, charges: &[Charge<'_>], at: Micros) -> Loaded;

    /// [`Store::reset`].
    fn reset_sync(&self, key: Key<'_>);
}

/// A shared store is a store: hand clones of one `Arc` to several limiters.
impl<S: Store + MaybeSend + MaybeSync> Store for std::sync::Arc<S> {
    fn capability(&self) -> Capability {
        (**self).capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        (**self).admit(admission, cx).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        (**self).admit_many(batch, results, cx).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        (**self).load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        (**self).reset(key, cx).await
    }

    async fn close(&self) {
        (**self).close().await;
    }

    fn round_trips(&self) -> Option<u64> {
        (**self).round_trips()
    }

    fn forgotten_request_ids(&self) -> u64 {
        (**self).forgotten_request_ids()
    }

    fn usage(&self) -> Vec<PolicyUsage> {
        (**self).usage()
    }

    fn endpoint(&self, key: Key<'_>) -> Endpoint {
        (**self).endpoint(key)
    }

    fn last_answer(&self, key: Key<'_>) -> Option<LastAnswer> {
        (**self).last_answer(key)
    }

    #[inline]
    fn decide_now(&self, charge: &Charge<'_>, at: Micros) -> Option<Result<Decision>> {
        (**self).decide_now(charge, at)
    }
}

impl<S: SyncStore> SyncStore for std::sync::Arc<S> {
    #[inline]
    fn check_sync(&self, charge: &Charge<'_>, at: Micros) -> Result<Decision> {
        (**self).check_sync(charge, at)
    }

    fn admit_sync(&self, admission: &Admission<'_>, at: Micros) -> Result<Evidence> {
        (**self).admit_sync(admission, at)
    }

    fn load_sync(&self, charges: &[Charge<'_>], at: Micros) -> Loaded {
        (**self).load_sync(charges, at)
    }

    fn reset_sync(&self, key: Key<'_>) {
        (**self).reset_sync(key);
    }
}
