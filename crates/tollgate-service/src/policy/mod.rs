//! Named policies: the limits of a request.
//!
//! A set of policies never changes: a reload makes a new set and swaps it in. Strings of the
//! configuration end here; the engine and the limiter see limits and charges only.

mod bounds;
mod changes;
mod info;
mod refunds;
mod resolved;
mod words;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::algorithm::{Gcra, TokenBucket};
use tollgate_core::store::Bounds;
use tollgate_core::{Code, Error, Limit, Name, OutageMode, Quota, Result, Rule};
use tollgate_http::{HashKey, QuotaPolicy, RateLimitFields};

pub use changes::PolicyChange;
pub use info::LimitInfo;
pub use refunds::Refunds;
pub use resolved::ResolvedPolicy;
pub use words::LimitWords;
pub use written::{Written, WrittenValue};

/// The policy of requests that name none.
pub const DEFAULT_POLICY: &str = "default";
/// The namespace of limits that are part of a request; no policy may have this name.
pub const AD_HOC_POLICY: &str = "cl.throttle";
/// The most limits of one policy, and of one request over all of its charges.
pub const LIMITS_MAX: usize = 16;

/// A limit and its name within its policy.
#[derive(Clone, Debug)]
pub struct NamedLimit {
    /// The name within the policy, as clients see it.
    pub name: Name,
    /// The limit; its own name holds the policy's too.
    pub limit: Limit,
}

/// A named policy: one or several limits, all or nothing.
#[derive(Clone, Debug)]
pub struct Policy {
    name: Name,
    limits: LimitSet,
    shadow: bool,
    refunds: Refunds,
    hash: Option<HashKey>,
    overrides: BTreeMap<Box<str>, LimitSet>,
    written: Written,
}

/// The limits of a key, their names in responses, and their header fields.
#[derive(Clone, Debug)]
pub(crate) struct LimitSet {
    pub(crate) limits: Vec<NamedLimit>,
    pub(crate) names: Arc<[LimitName]>,
    pub(crate) fields: RateLimitFields,
}

/// A limit as responses name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitName {
    /// The policy.
    pub policy: Name,
    /// The name within the policy.
    pub name: Name,
}

impl LimitSet {
    fn new(policy: &Name, limits: Vec<NamedLimit>) -> Self {
        let quotas: Vec<QuotaPolicy<'_>> = limits.iter().map(NamedLimit::quota).collect();
        let fields = RateLimitFields::draft_11(&quotas);
        let name =
            |named: &NamedLimit| LimitName { policy: policy.clone(), name: named.name.clone() };
        Self { names: limits.iter().map(name).collect(), fields, limits }
    }
}

impl NamedLimit {
    /// The limit as header fields state it.
    pub(crate) fn quota(&self) -> QuotaPolicy<'_> {
        QuotaPolicy::new(self.name.as_str(), &self.limit)
    }
}

impl Policy {
    /// A policy of these limits, of which there is at least one.
    #[must_use]
    pub fn new(name: Name, limits: Vec<NamedLimit>) -> Self {
        Self {
            limits: LimitSet::new(&name, limits),
            name,
            shadow: false,
            refunds: Refunds::default(),
            hash: None,
            overrides: BTreeMap::new(),
            written: Written::default(),
        }
    }

    /// Sets what a file says about it.
    #[must_use]
    pub fn written_as(mut self, written: Written) -> Self {
        self.written = written;
        self
    }

    /// Sets shadow mode: the policy decides and counts but never denies.
    #[must_use]
    pub const fn shadow(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// Sets who may give units back.
    #[must_use]
    pub const fn accept_refunds(mut self, refunds: Refunds) -> Self {
        self.refunds = refunds;
        self
    }

    /// Sets the hash that replaces keys before they reach the store.
    #[must_use]
    pub fn hash_keys(mut self, hash: Option<HashKey>) -> Self {
        self.hash = hash;
        self
    }

    /// Sets other limits for one key. What the key has spent stays spent.
    #[must_use]
    pub fn override_key(mut self, key: &str, limits: Vec<NamedLimit>) -> Self {
        self.overrides.insert(key.into(), LimitSet::new(&self.name, limits));
        self
    }

    /// The name.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// The policy as a file says it: what was written, its limits in the words of [`LimitWords`],
    /// and what applies without being written. Empty for a policy that was not read from a file.
    #[must_use]
    pub const fn written(&self) -> &Written {
        &self.written
    }

    /// The limits, in the order in which they are charged.
    pub fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.limits.limits.iter().map(|named| &named.limit)
    }

    /// The limits of all keys, overrides included.
    pub(crate) fn every_limit(&self) -> impl Iterator<Item = &Limit> {
        let all = std::iter::once(&self.limits).chain(self.overrides.values());
        all.flat_map(|set| &set.limits).map(|named| &named.limit)
    }

    /// Whether it decides and counts but never denies.
    #[must_use]
    pub const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Who may give units back.
    #[must_use]
    pub const fn refunds(&self) -> Refunds {
        self.refunds
    }

    /// Whether its keys are hashed, which bounds their number.
    #[must_use]
    pub const fn hashes_keys(&self) -> bool {
        self.hash.is_some()
    }

    /// How many bits of the hash of a key reach the store, if keys are hashed.
    #[must_use]
    pub fn hash_bits(&self) -> Option<usize> {
        self.hash.as_ref().map(HashKey::width)
    }

    /// The limits of keys that have none of their own, in numbers.
    pub(crate) fn infos(&self) -> Vec<LimitInfo> {
        self.limits.limits.iter().map(LimitInfo::of).collect()
    }

    /// The limits of keys that have none of their own.
    pub(crate) const fn default_set(&self) -> &LimitSet {
        &self.limits
    }

    /// The limits of each key that has some of its own.
    pub(crate) fn overrides(&self) -> impl ExactSizeIterator<Item = &LimitSet> {
        self.overrides.values()
    }

    /// The names of the limits of all keys, each once.
    #[must_use]
    pub fn limit_names(&self) -> BTreeSet<&Name> {
        let sets = std::iter::once(&self.limits).chain(self.overrides.values());
        sets.flat_map(|set| set.limits.iter().map(|named| &named.name)).collect()
    }

    /// The limits of one key.
    #[must_use]
    pub fn limits_of(&self, key: &str) -> &[NamedLimit] {
        &self.set_of(key).limits
    }

    /// The limits of one key, with their header fields.
    pub(crate) fn set_of(&self, key: &str) -> &LimitSet {
        self.overrides.get(key).unwrap_or(&self.limits)
    }

    /// The limits and the subject of a request for a key.
    pub(crate) fn resolve<'a>(&'a self, key: &'a str) -> ResolvedPolicy<'a> {
        ResolvedPolicy::of_policy(self, key)
    }
}

/// The bounds of limits that are part of a request (`CL.THROTTLE`). Callers choose both the keys
/// and the quotas of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdHocBounds {
    /// Whether such requests are decided at all.
    pub enabled: bool,
    /// The longest period of a quota.
    pub max_period: Duration,
    /// How many keys the memory store keeps.
    pub max_keys: usize,
}

impl Default for AdHocBounds {
    fn default() -> Self {
        Self { enabled: true, max_period: Duration::from_secs(30 * 86_400), max_keys: 100_000 }
    }
}

/// The policies of a service, by name.
///
/// ```
/// use tollgate_service::policies_from_yaml;
///
/// let policies = policies_from_yaml("policies: {api: {limit: 100 per 1m}}")?;
/// assert_eq!(policies.find("api")?.limits().count(), 1);
/// assert!(policies.find("default").is_ok(), "there always is one");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Policies {
    by_name: BTreeMap<Box<str>, Policy>,
    ad_hoc: Limit,
    ad_hoc_bounds: AdHocBounds,
}

impl Policies {
    /// These policies; without a `default` among them, a bucket of `capacity` that refills
    /// steadily. `on_outage` is the outage mode of that bucket, and of limits in a request.
    ///
    /// # Errors
    /// `config_invalid` when the bucket is out of range.
    pub fn new(
        capacity: u64,
        refill: Quota,
        on_outage: OutageMode,
        policies: impl IntoIterator<Item = Policy>,
    ) -> Result<Self> {
        let limit = Limit::new(DEFAULT_POLICY, TokenBucket::new(capacity, refill)?)?;
        let limit = limit.on_outage(on_outage);
        let name = limit.policy().clone();
        let mut written = Written::default();
        written.limit(limit.rule());
        written.text("on_outage", on_outage.as_str());
        let bucket = Policy::new(name.clone(), vec![NamedLimit { name, limit }]);
        let bucket = bucket.written_as(written);
        // A `default` among the policies replaces the bucket.
        let all = std::iter::once(bucket).chain(policies);
        let mut by_name = BTreeMap::new();
        by_name.extend(all.map(|policy| (policy.name.as_str().into(), policy)));
        let (ad_hoc, ad_hoc_bounds) =
            (ad_hoc_limit()?.on_outage(on_outage), AdHocBounds::default());
        Ok(Self { by_name, ad_hoc, ad_hoc_bounds }.bound_ad_hoc(ad_hoc_bounds))
    }

    /// Sets the bounds of requests that have their own quota.
    #[must_use]
    pub fn bound_ad_hoc(mut self, bounds: AdHocBounds) -> Self {
        self.ad_hoc = self.ad_hoc.bounded(Bounds::new().max_keys(bounds.max_keys));
        self.ad_hoc_bounds = bounds;
        self
    }

    /// Sets how much is kept for the policy `default`.
    #[must_use]
    pub fn bound_default(mut self, bounds: Bounds) -> Self {
        if let Some(policy) = self.by_name.get_mut(DEFAULT_POLICY) {
            for named in &mut policy.limits.limits {
                named.limit = named.limit.clone().bounded(bounds);
            }
        }
        self
    }

    /// The namespace and the outage mode of requests that have their own quota.
    #[must_use]
    pub const fn ad_hoc(&self) -> &Limit {
        &self.ad_hoc
    }

    /// The limit of a request that has its own quota, with a burst.
    ///
    /// # Errors
    /// `unsupported` when such requests are switched off; `invalid_request` naming the period when
    /// it is too long; `config_invalid` naming the field of the quota that is out of range.
    pub fn ad_hoc_limit(&self, quota: Quota, burst: u64) -> Result<Limit> {
        let AdHocBounds { enabled, max_period, .. } = self.ad_hoc_bounds;
        if !enabled {
            let message = "limits in a request are switched off; use a policy";
            return Err(Error::new(Code::Unsupported, message));
        }
        if quota.period > max_period {
            let (given, longest) = (quota.period.as_secs(), max_period.as_secs());
            let message = format!("{given} seconds are out of range; accepted: up to {longest}");
            return Err(Error::invalid("period", message));
        }
        let rule = Rule::new(Gcra::with_burst(quota, burst)?);
        Ok(self.ad_hoc.clone().replace_rule(rule))
    }

    /// Finds a policy.
    ///
    /// # Errors
    /// `unknown_policy`, with the nearest name if one is near.
    pub fn find(&self, name: &str) -> Result<&Policy> {
        self.by_name.get(name).ok_or_else(|| self.unknown(name))
    }

    /// The policies in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Policy> {
        self.by_name.values()
    }

    fn unknown(&self, name: &str) -> Error {
        let names = self.by_name.keys().map(|name| &**name);
        let message = match nearest(name, names) {
            Some(near) => format!("no policy has that name; did you mean {near:?}?"),
            None => "no policy has that name".to_owned(),
        };
        Error::new(Code::UnknownPolicy, message).with_field("policy")
    }

    /// The policies of a service without a configuration: a bucket of `capacity` that refills
    /// steadily.
    ///
    /// # Errors
    /// `config_invalid` when the quota is out of range.
    pub fn of_default(capacity: u64, refill: Quota) -> Result<Self> {
        Self::new(capacity, refill, OutageMode::Open, [])
    }
}

/// The limit of requests that have their own quota. Each replaces the rule: this one never decides.
pub(crate) fn ad_hoc_limit() -> Result<Limit> {
    Limit::new(AD_HOC_POLICY, Gcra::new(Quota::per_second(1))?)
}

/// The name that was probably meant, if one is near.
#[must_use]
pub fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A long text is not a misspelt name, and the cost of a distance grows with its length.
    if wrong.len() > 64 {
        return None;
    }
    let near = |name: &&str| strsim::damerau_levenshtein(wrong, name) <= 1 + wrong.len() / 4;
    names.filter(near).min_by_key(|name| strsim::damerau_levenshtein(wrong, name))
}
