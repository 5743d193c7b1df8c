//! What every clause works with: a store, names of its own, and the acts of a limiter.

use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::{BuildHasher, RandomState};

use tollgate_core::store::{CallContext, Capability, Evidence, Plan, Store, TimeSource};
use tollgate_core::{
    Admission, Charge, Code, Cost, Decision, Error, Limit, Micros, Now, RequestId, Result, Rule,
};

use crate::derive::decisions_of;
use crate::model::ModelQuota;

/// The first instant of every clause that injects time.
pub(super) const START: Micros = 1_700_000_000_000_000;

/// What the suite cannot find out by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether the store accepts [`TimeSource::Given`]. By default every store does that has no
    /// clock of its own; clauses that move time are skipped where none can be given.
    pub injects_time: Option<bool>,
    /// How many request ids the store was opened to keep, if it lets that be configured; at
    /// most a few hundred, because the clause fills it.
    pub records_max: Option<usize>,
}

/// One store under test, with names that no other clause uses.
#[derive(Debug)]
pub struct Suite<'s, S> {
    store: &'s S,
    options: Options,
    prefix: String,
}

impl<'s, S: Store> Suite<'s, S> {
    /// A suite over a store. Its keys meet those of no other suite, also on a shared server.
    pub fn new(store: &'s S, options: Options) -> Self {
        Self::with_prefix(store, options, fresh_name())
    }

    /// A suite whose keys have a prefix that no other suite uses. For programs on targets where
    /// std has no randomness, such as a Worker.
    pub fn with_prefix(store: &'s S, options: Options, prefix: impl Into<String>) -> Self {
        Self { store, options, prefix: prefix.into() }
    }

    /// The store under test.
    #[must_use]
    pub const fn store(&self) -> &'s S {
        self.store
    }

    pub(super) fn capability(&self) -> Capability {
        self.store.capability()
    }

    pub(super) const fn options(&self) -> Options {
        self.options
    }

    /// Whether time can be injected; without it, clauses about time do not apply.
    pub(super) fn injects_time(&self) -> bool {
        self.options.injects_time.unwrap_or(!self.capability().own_clock)
    }

    /// An instant after the start, or the store's clock where none can be given.
    pub(super) fn at(&self, after: Micros) -> CallContext<'static> {
        if self.injects_time() {
            CallContext::at(START + after)
        } else {
            CallContext::store_clock()
        }
    }

    /// A limit of this suite.
    pub(crate) fn limit(&self, policy: &str, quota: &ModelQuota) -> Limit {
        let rule = quota.rule().expect("the suite only uses quotas that are accepted");
        self.limit_of(policy, rule)
    }

    pub(super) fn limit_of(&self, policy: &str, rule: Rule) -> Limit {
        let limit = Limit::with_rule(policy, rule).expect("the suite only uses accepted names");
        limit.with_prefix(&self.prefix).expect("the suite only uses accepted names")
    }

    /// Admits and derives what was decided.
    pub(super) async fn admit(
        &self,
        admission: &Admission<'_>,
        at: CallContext<'_>,
    ) -> Result<Plan> {
        let outcome = self.store.admit(admission, at).await?;
        // A replay reports the instant of the first time.
        if outcome.replayed.is_none() {
            self.is_told_the_time(at, outcome.now);
        }
        decisions_of(admission, &outcome)
    }

    /// A single charge.
    pub(super) async fn charge(&self, charge: Charge<'_>, at: CallContext<'_>) -> Result<Decision> {
        let plan = self.admit(&Admission::of(&[charge]), at).await?;
        plan.decisions.into_iter().next().ok_or_else(no_decision)
    }

    /// A single charge under a request id.
    pub(super) async fn charge_once(
        &self,
        charge: Charge<'_>,
        request_id: RequestId<'_>,
        at: CallContext<'_>,
    ) -> Result<(Decision, Evidence)> {
        let charges = [charge];
        let admission = Admission::of(&charges).request_id(request_id);
        let outcome = self.store.admit(&admission, at).await?;
        let plan = decisions_of(&admission, &outcome)?;
        let decision = plan.decisions.into_iter().next().ok_or_else(no_decision)?;
        Ok((decision, outcome))
    }

    /// The decision for a charge without charging, and the instant it was made at.
    pub(crate) async fn peek(
        &self,
        charge: &Charge<'_>,
        at: CallContext<'_>,
    ) -> Result<(Decision, Now)> {
        let loaded = self.store.load(&[*charge], at).await?;
        self.is_told_the_time(at, loaded.now);
        let state = loaded.states.into_iter().next().flatten();
        let words = match &state {
            None => Vec::new(),
            Some(state) => {
                let carried =
                    tollgate_core::algorithm::migrate_state(charge.rule(), state, loaded.now)?;
                let carried = carried.as_ref();
                carried.map_or(&state.words, |carried| &carried.state.words).to_vec()
            }
        };
        Ok((charge.rule().peek(&words, loaded.now, charge.cost), loaded.now))
    }

    /// Units that are spendable now.
    pub(super) async fn remaining(&self, limit: &Limit, subject: &str, at: CallContext<'_>) -> u64 {
        let peeked = self.peek(&limit.charge(subject), at).await;
        peeked.expect("a key can be peeked").0.remaining
    }

    /// A store that is given a reading decides by it: only the floor is its own.
    fn is_told_the_time(&self, at: CallContext<'_>, now: Now) {
        if let TimeSource::Given(reading) = at.time() {
            assert_eq!(now.reading(), reading, "the store did not use the reading it was given");
        }
    }
}

/// Units as a cost.
pub(super) fn cost(units: u64) -> Cost {
    Cost::new(units).expect("the suite only asks for accepted costs")
}

fn no_decision() -> Error {
    Error::new(Code::CorruptState, "an admission of one charge has no decision")
}

/// A name that no other suite uses, also on a shared server.
pub(super) fn fresh_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // The hasher's keys are random per process: the one source of randomness in std.
    let random = RandomState::new().hash_one(number);
    format!("tk{random:016x}-{number}")
}
