//! A request under its policy: from a key to charges, and from a decision to a response.

use std::borrow::Cow;
use std::sync::Arc;

use tollgate_core::{Charge, Cost, Decision, Limit, Name, Verdict};

use super::{LimitInfo, LimitName, LimitSet, NamedLimit, Policy};
use crate::engine::CheckResponse;

/// The limits and the subject of a request.
#[derive(Debug)]
pub struct ResolvedPolicy<'a> {
    name: &'a Name,
    limits: Limits<'a>,
    subject: Cow<'a, str>,
    shadow: bool,
}

#[derive(Clone, Copy, Debug)]
enum Limits<'a> {
    OfPolicy(&'a LimitSet),
    /// A limit that is part of the request.
    AdHoc(&'a Limit),
}

impl<'a> ResolvedPolicy<'a> {
    pub(super) fn of_policy(policy: &'a Policy, key: &'a str) -> Self {
        let subject = match &policy.hash {
            Some(hash) => Cow::Owned(hash.hash(key)),
            None => Cow::Borrowed(key),
        };
        let limits = Limits::OfPolicy(policy.set_of(key));
        Self { name: &policy.name, limits, subject, shadow: policy.shadow }
    }

    /// A limit that is part of the request.
    pub(crate) fn of_limit(limit: &'a Limit, key: &'a str) -> Self {
        let limits = Limits::AdHoc(limit);
        Self { name: limit.policy(), limits, subject: Cow::Borrowed(key), shadow: false }
    }

    /// The name of the policy.
    #[must_use]
    pub const fn name(&self) -> &Name {
        self.name
    }

    fn limits(&self) -> impl Iterator<Item = &'a Limit> {
        let ad_hoc = match self.limits {
            Limits::OfPolicy(_) => None,
            Limits::AdHoc(limit) => Some(limit),
        };
        self.named().iter().map(|named| &named.limit).chain(ad_hoc)
    }

    fn named(&self) -> &'a [NamedLimit] {
        match self.limits {
            Limits::OfPolicy(set) => &set.limits,
            Limits::AdHoc(_) => &[],
        }
    }

    /// The names of the limits in a response; none for a limit that is part of the request.
    fn names(&self) -> Arc<[LimitName]> {
        match self.limits {
            Limits::OfPolicy(set) => Arc::clone(&set.names),
            Limits::AdHoc(_) => Arc::default(),
        }
    }

    /// The names of the limits within the policy; none for a limit that is part of the request.
    pub(crate) fn limit_names(&self) -> impl Iterator<Item = &'a Name> {
        self.named().iter().map(|named| &named.name)
    }

    /// A charge of one unit on the limit of this name within the policy.
    pub(crate) fn charge_on(&self, name: &str) -> Option<Charge<'_>> {
        let named = self.named().iter().find(|named| named.name == name)?;
        Some(named.limit.charge(&self.subject))
    }

    /// A charge on each limit.
    pub(crate) fn charges(&self, cost: Cost) -> Vec<Charge<'_>> {
        self.limits().map(|limit| limit.charge(&self.subject).cost(cost)).collect()
    }

    /// The charge, if there is one limit.
    pub(crate) fn single_charge(&self, cost: Cost) -> Option<Charge<'_>> {
        let mut limits = self.limits();
        let (Some(limit), None) = (limits.next(), limits.next()) else { return None };
        Some(limit.charge(&self.subject).cost(cost))
    }

    /// The limits in numbers.
    pub(crate) fn infos(&self) -> Vec<LimitInfo> {
        self.named().iter().map(LimitInfo::of).collect()
    }

    /// Whether the policy decides and counts but never denies.
    pub(crate) const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// The most that could ever be granted at once.
    pub(crate) fn ceiling(&self) -> u64 {
        self.limits().map(|limit| limit.rule().ceiling()).min().unwrap_or(0)
    }

    /// The decision in the names of the policy. In shadow mode it neither denies nor delays, and
    /// the response says what the policy would have decided.
    pub(crate) fn respond(&self, mut decision: Decision) -> CheckResponse {
        let is_binding = |limit: &Limit| Some(limit.policy()) == decision.binding();
        if let Some(named) = self.named().iter().find(|named| is_binding(&named.limit)) {
            decision = decision.with_binding(named.name.clone());
        }
        let shadow = (self.shadow && !decision.is_allowed()).then_some(decision.verdict);
        if self.shadow {
            decision.delay_ms = 0;
        }
        if shadow.is_some() {
            decision.verdict = Verdict::Allowed;
            decision.retry_after_ms = Some(0);
        }
        let (policy, limits) = (self.name.clone(), self.names());
        CheckResponse { policy, decision, limits, shadow, receipt: None }
    }
}
