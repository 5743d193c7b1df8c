//! Named policies: which limits apply to a request.
//!
//! A set of policies never changes: a reload makes a new one and swaps it in. Strings of the
//! configuration end here; what is right of this module knows only limits and charges.

mod described;
mod found;
mod hash;

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::algorithm::{Gcra, TokenBucket};
use tollgate::{Code, Error, Limit, Name, OutageMode, Quota};

pub use described::Described;
pub use found::Asked;
pub use hash::KeyHash;

/// The policy of requests that name none.
pub const DEFAULT_POLICY: &str = "default";
/// The namespace of limits that a request itself brings; no policy may have this name.
pub const AD_HOC_POLICY: &str = "cl.throttle";

/// A limit of a policy, and how it is shown to clients.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Its name within the policy.
    pub name: Name,
    /// The limit.
    pub limit: Limit,
    /// The time in which it grants its ceiling.
    pub window: Duration,
}

/// A named policy: one or several limits, all or nothing.
#[derive(Clone, Debug)]
pub struct Policy {
    name: Name,
    bounds: Bounds,
    shadow: bool,
    hash: Option<KeyHash>,
    overrides: BTreeMap<Box<str>, Bounds>,
}

/// Limits, in the form in which they are charged and in the form in which they are shown.
#[derive(Clone, Debug)]
struct Bounds {
    limits: Vec<Limit>,
    shown: Vec<Shown>,
}

/// How a limit is shown to clients.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its name within the policy.
    pub name: Name,
    /// Units that it grants within its window.
    pub units: u64,
    /// Seconds in which it grants them, rounded up.
    pub window_s: u64,
}

impl From<Vec<Bound>> for Bounds {
    fn from(bounds: Vec<Bound>) -> Self {
        let shown = |bound: &Bound| Shown {
            name: bound.name.clone(),
            units: bound.limit.rule().ceiling(),
            window_s: seconds_up(bound.window),
        };
        let shown = bounds.iter().map(shown).collect();
        Self { limits: bounds.into_iter().map(|bound| bound.limit).collect(), shown }
    }
}

impl Policy {
    /// A policy of these limits, of which there is at least one.
    #[must_use]
    pub fn new(name: Name, bounds: Vec<Bound>) -> Self {
        let overrides = BTreeMap::new();
        Self { name, bounds: bounds.into(), shadow: false, hash: None, overrides }
    }

    /// The same policy, which decides and counts but never denies.
    #[must_use]
    pub const fn shadowed(mut self, shadow: bool) -> Self {
        self.shadow = shadow;
        self
    }

    /// The same policy, whose keys never reach the store as they are.
    #[must_use]
    pub fn hashing(mut self, hash: Option<KeyHash>) -> Self {
        self.hash = hash;
        self
    }

    /// The same policy with other limits for one key. What the key has spent stays spent.
    #[must_use]
    pub fn overriding(mut self, key: &str, bounds: Vec<Bound>) -> Self {
        self.overrides.insert(key.into(), bounds.into());
        self
    }

    /// The name.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// The limits, in the order in which they are charged.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.bounds.limits
    }

    /// The limits of all keys, of those with limits of their own too.
    pub(crate) fn every_limit(&self) -> impl Iterator<Item = &Limit> {
        std::iter::once(&self.bounds).chain(self.overrides.values()).flat_map(|one| &one.limits)
    }

    /// How the limits of a key are shown to clients.
    #[must_use]
    pub fn shown(&self, key: &str) -> &[Shown] {
        &self.bounds_of(key).shown
    }

    /// Whether it decides and counts but never denies.
    #[must_use]
    pub const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// Whether its keys are hashed, which bounds their number.
    #[must_use]
    pub const fn hashes_keys(&self) -> bool {
        self.hash.is_some()
    }

    fn bounds_of(&self, key: &str) -> &Bounds {
        self.overrides.get(key).unwrap_or(&self.bounds)
    }

    /// What a request for a key is decided under.
    pub(crate) fn ask<'a>(&'a self, key: &'a str) -> Asked<'a> {
        Asked::of_policy(self, key)
    }
}

/// The policies of a server, by name.
#[derive(Clone, Debug)]
pub struct Policies {
    by_name: BTreeMap<Box<str>, Policy>,
    ad_hoc: Limit,
}

impl Policies {
    /// These policies; without a `default` among them, a bucket of `capacity` that refills steadily.
    /// `on_outage` is what that bucket does in an outage, and requests that bring their own limit.
    ///
    /// # Errors
    /// `config_invalid` when the bucket is out of range.
    pub fn new(
        capacity: u64,
        refill: Quota,
        on_outage: OutageMode,
        policies: impl IntoIterator<Item = Policy>,
    ) -> tollgate::Result<Self> {
        let ad_hoc = ad_hoc_limit()?;
        let bucket = TokenBucket::new(capacity, refill)?;
        let limit = Limit::new(DEFAULT_POLICY, bucket)?.on_outage(on_outage);
        let name = limit.policy().clone();
        let window = time_to_refill(capacity, refill);
        let bucket = Policy::new(name.clone(), vec![Bound { name, limit, window }]);
        // A policy that was written takes the place of the bucket.
        let all = std::iter::once(bucket).chain(policies);
        let by_name = all.map(|policy| (policy.name.as_str().into(), policy)).collect();
        Ok(Self { by_name, ad_hoc: ad_hoc.on_outage(on_outage) })
    }

    /// The limit of requests that bring their own quota.
    #[must_use]
    pub const fn ad_hoc(&self) -> &Limit {
        &self.ad_hoc
    }

    /// Finds a policy.
    ///
    /// # Errors
    /// `unknown_policy`, with the nearest name if one is near.
    pub fn find(&self, name: &str) -> tollgate::Result<&Policy> {
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

    /// What a server without a configuration runs: a bucket of `capacity` that refills steadily.
    ///
    /// # Errors
    /// `config_invalid` when the quota is out of range.
    pub fn of_default(capacity: u64, refill: Quota) -> tollgate::Result<Self> {
        Self::new(capacity, refill, OutageMode::Open, [])
    }
}

/// The limit of requests that bring their own quota. Each replaces the rule: this one is never asked.
pub(crate) fn ad_hoc_limit() -> tollgate::Result<Limit> {
    Limit::new(AD_HOC_POLICY, Gcra::new(Quota::per_second(1))?)
}

/// How long `units` take at a rate, rounded up to a microsecond.
pub(crate) fn time_to_refill(units: u64, rate: Quota) -> Duration {
    let micros = rate.period.as_micros().saturating_mul(u128::from(units));
    let micros = micros.div_ceil(u128::from(rate.limit.max(1)));
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

fn seconds_up(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

/// The name that was probably meant, if one is near.
pub(crate) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A long text is no misspelt name, and distances cost its length.
    if wrong.len() > 64 {
        return None;
    }
    let near = |name: &&str| strsim::damerau_levenshtein(wrong, name) <= 1 + wrong.len() / 4;
    names.filter(near).min_by_key(|name| strsim::damerau_levenshtein(wrong, name))
}
