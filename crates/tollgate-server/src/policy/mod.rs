//! Named policies: which limits apply to a request.
//!
//! A set of policies never changes: a reload makes a new one and swaps it in. Strings of the
//! configuration end here; what is right of this module knows only limits and charges.

mod found;

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::algorithm::{Gcra, TokenBucket};
use tollgate::{Code, Error, Limit, Name, Quota};

pub use found::Asked;

/// The policy of requests that name none.
pub const DEFAULT_POLICY: &str = "default";
/// The namespace of limits that a request itself brings; no policy may have this name.
pub const AD_HOC_POLICY: &str = "cl.throttle";

/// A named policy: one or several limits, all or nothing.
#[derive(Clone, Debug)]
pub struct Policy {
    name: Name,
    limits: Vec<Limit>,
    /// How each limit is shown to clients, in the same order.
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

impl Policy {
    /// A policy of one limit; both have one name.
    #[must_use]
    pub fn of_limit(limit: Limit, window: Duration) -> Self {
        let name = limit.policy().clone();
        let units = limit.rule().ceiling();
        let shown = Shown { name: name.clone(), units, window_s: seconds_up(window) };
        Self { name, limits: vec![limit], shown: vec![shown] }
    }

    /// How the limits are shown to clients.
    #[must_use]
    pub fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// The name.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// The limits, in the order in which they are charged.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
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
    /// A set of policies; of two with one name the later.
    ///
    /// # Errors
    /// `config_invalid` when the limit of requests that bring their own cannot be made.
    pub fn new(policies: impl IntoIterator<Item = Policy>) -> tollgate::Result<Self> {
        // Every such request replaces the rule: this one is never asked.
        let ad_hoc = Limit::new(AD_HOC_POLICY, Gcra::new(Quota::per_second(1))?)?;
        let named = policies.into_iter().map(|policy| (policy.name.as_str().into(), policy));
        Ok(Self { by_name: named.collect(), ad_hoc })
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
        let limit = Limit::new(DEFAULT_POLICY, TokenBucket::new(capacity, refill)?)?;
        let window = time_to_refill(capacity, refill);
        Self::new([Policy::of_limit(limit, window)])
    }
}

/// How long `units` take at a rate, rounded up to a microsecond.
fn time_to_refill(units: u64, rate: Quota) -> Duration {
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
