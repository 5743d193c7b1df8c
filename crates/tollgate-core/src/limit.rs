//! A limit: the name of a policy, the algorithm that decides, and what happens without the store.

use crate::algorithm::{
    Algorithm, Anchor, FixedWindow, Gcra, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket,
};
use crate::charge::{Charge, Operation};
use crate::cost::Cost;
use crate::decision::OutageMode;
use crate::error::{Code, Result};
use crate::key::{Key, Name};
use crate::outage::{Chooser, Outage};
use crate::quota::Quota;
use crate::rule::Rule;
use crate::store::memory::{Bounds, Scope, Secrets};

/// The prefix of keys when none is given.
const DEFAULT_PREFIX: &str = "tollgate";

/// A named limit: a policy, the algorithm that decides, and what happens without the store.
///
/// ```
/// use tollgate_core::{Limit, Limiter, Quota};
///
/// let limiter = Limiter::in_memory();
/// let api = Limit::gcra("api", Quota::per_minute(100))?;
/// assert!(limiter.sync().check(api.charge("ada"))?.is_allowed());
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limit {
    prefix: Name,
    policy: Name,
    rule: Rule,
    on_outage: OutageMode,
    chooser: Option<Chooser>,
    scope: Scope,
    bounds: Bounds,
    /// Absent for one ceiling, whatever the algorithm is.
    max_debt: Option<u64>,
}

impl Limit {
    /// A limit under the name `policy`. Keys of different policies never meet.
    ///
    /// # Errors
    /// `config_invalid` when the name has characters other than `A-Z a-z 0-9 _ . -`.
    pub fn new(policy: &str, algorithm: impl Algorithm + 'static) -> Result<Self> {
        Self::with_rule(policy, Rule::new(algorithm))
    }

    /// `quota.limit` units per period, evenly spaced in the long run, all of them at once if the
    /// key is fresh: the generic cell rate algorithm. [`Gcra::with_burst`] sets another burst.
    ///
    /// # Errors
    /// `config_invalid` naming the field of the quota or the name, with the nearest accepted value.
    pub fn gcra(policy: &str, quota: Quota) -> Result<Self> {
        Self::new(policy, Gcra::new(quota)?)
    }

    /// A bucket of `capacity` tokens, refilled with `refill.limit` per period.
    ///
    /// # Errors
    /// As [`Limit::gcra`].
    pub fn token_bucket(policy: &str, capacity: u64, refill: Quota) -> Result<Self> {
        Self::new(policy, TokenBucket::new(capacity, refill)?)
    }

    /// A shaper: `rate.limit` units per period pass, `queue` more may wait, and decisions carry the
    /// delay.
    ///
    /// # Errors
    /// As [`Limit::gcra`].
    pub fn leaky_bucket(policy: &str, rate: Quota, queue: u64) -> Result<Self> {
        Self::new(policy, LeakyBucket::new(rate, queue)?)
    }

    /// `quota.limit` units per window, the windows of all keys at multiples of it since the epoch.
    /// [`FixedWindow::new`] takes another anchor.
    ///
    /// # Errors
    /// As [`Limit::gcra`].
    pub fn fixed_window(policy: &str, quota: Quota) -> Result<Self> {
        Self::new(policy, FixedWindow::new(quota, Anchor::Epoch)?)
    }

    /// An estimate of the last window from two counters. [`SlidingWindow::with_buckets`] takes
    /// more.
    ///
    /// # Errors
    /// As [`Limit::gcra`].
    pub fn sliding_window(policy: &str, quota: Quota) -> Result<Self> {
        Self::new(policy, SlidingWindow::new(quota)?)
    }

    /// `quota.limit` units in any window, exactly.
    ///
    /// # Errors
    /// As [`Limit::gcra`].
    pub fn sliding_log(policy: &str, quota: Quota) -> Result<Self> {
        Self::new(policy, SlidingLog::new(quota)?)
    }

    /// A limit over an algorithm that is shared already.
    ///
    /// # Errors
    /// As [`Limit::new`].
    pub fn with_rule(policy: &str, rule: Rule) -> Result<Self> {
        let prefix = Name::new("prefix", DEFAULT_PREFIX)?;
        let policy = Name::new("policy", policy)?;
        let scope = Secrets::of_process().scope(prefix.as_str(), policy.as_str());
        let on_outage = OutageMode::Open;
        let bounds = Bounds::new();
        Ok(Self { prefix, policy, rule, on_outage, chooser: None, scope, bounds, max_debt: None })
    }

    /// Puts the keys into a namespace of their own.
    ///
    /// # Errors
    /// `config_invalid` when the name has characters other than `A-Z a-z 0-9 _ . -`.
    pub fn with_prefix(mut self, prefix: &str) -> Result<Self> {
        self.prefix = Name::new("prefix", prefix)?;
        self.scope = Secrets::of_process().scope(prefix, self.policy.as_str());
        Ok(self)
    }

    /// How much the memory store keeps for the policy, instead of what it keeps for others.
    ///
    /// What counts are the bounds of the limit that brings the first key of the policy to a store.
    #[must_use]
    pub fn bounded(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// The bounds that were set.
    pub const fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// How many units beyond its ceiling a key may owe when a charge is
    /// [settled](Charge::settle) for more than it took; one ceiling unless set. What exceeds it is
    /// dropped and reported. With 0, settling charges no more than there is room for.
    #[must_use]
    pub fn max_debt(mut self, units: u64) -> Self {
        self.max_debt = Some(units);
        self
    }

    /// How many units beyond its ceiling a key may owe.
    #[must_use]
    pub fn debt_bound(&self) -> u64 {
        self.max_debt.unwrap_or_else(|| self.rule.ceiling())
    }

    /// What happens when the store cannot answer: open (the default), closed or local.
    #[must_use]
    pub fn on_outage(mut self, mode: OutageMode) -> Self {
        self.on_outage = mode;
        self
    }

    /// Chooses the mode anew for every decision that the store could not make: a place to log, too.
    /// It must not wait.
    #[must_use]
    pub fn choose_on_outage(
        mut self,
        choose: impl Fn(&Outage<'_>) -> OutageMode + Send + Sync + 'static,
    ) -> Self {
        self.chooser = Some(Chooser::new(choose));
        self
    }

    /// The same limit with the mode that is chosen for this outage; absent when there is no choice.
    pub(crate) fn chosen(&self, code: Code) -> Option<Self> {
        let outage = Outage { policy: &self.policy, code, mode: self.on_outage };
        let mode = self.chooser.as_ref()?.choose(&outage);
        Some(Self { on_outage: mode, chooser: None, ..self.clone() })
    }

    /// Whether this process may have to decide alone, and so has to know what is spent.
    pub(crate) fn may_be_local(&self) -> bool {
        self.chooser.is_some() || self.on_outage == OutageMode::Local
    }

    /// The share of the names in the fingerprint of every key of this limit.
    #[inline]
    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    /// The namespace of the keys.
    #[must_use]
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    /// The name of the policy.
    #[must_use]
    pub fn policy(&self) -> &Name {
        &self.policy
    }

    /// The algorithm.
    #[must_use]
    #[inline]
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// What happens when the store cannot answer.
    #[must_use]
    pub fn outage_mode(&self) -> OutageMode {
        self.on_outage
    }

    /// The same limit with another algorithm or quota.
    #[must_use]
    pub fn replace_rule(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// The key of a subject under this limit.
    #[must_use]
    #[inline]
    pub fn key<'a>(&'a self, subject: &'a str) -> Key<'a> {
        Key { prefix: &self.prefix, policy: &self.policy, subject }
    }

    /// One unit for `subject`.
    #[must_use]
    #[inline]
    pub fn charge<'a>(&'a self, subject: &'a str) -> Charge<'a> {
        Charge { limit: self, subject, cost: Cost::ONE, operation: Operation::Take }
    }
}
