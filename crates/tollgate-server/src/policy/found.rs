//! A request under its policy: from a key to charges, and from a decision to an answer.

use std::borrow::Cow;

use tollgate::{Charge, Cost, Decision, Limit, Name, Verdict};

use super::{Described, Policy, Shown};
use crate::engine::Answer;

/// The limits that a request is decided under, and for whom.
#[derive(Debug)]
pub struct Asked<'a> {
    name: &'a Name,
    limits: &'a [Limit],
    shown: &'a [Shown],
    subject: Cow<'a, str>,
    shadow: bool,
}

impl<'a> Asked<'a> {
    pub(super) fn of_policy(policy: &'a Policy, key: &'a str) -> Self {
        let bounds = policy.bounds_of(key);
        let subject = match &policy.hash {
            Some(hash) => Cow::Owned(hash.of(key)),
            None => Cow::Borrowed(key),
        };
        let (limits, shown) = (&bounds.limits, &bounds.shown);
        Self { name: &policy.name, limits, shown, subject, shadow: policy.shadow }
    }

    /// A limit that the request itself brought.
    pub(crate) fn of_limit(limit: &'a Limit, key: &'a str) -> Self {
        let (name, limits) = (limit.policy(), std::slice::from_ref(limit));
        Self { name, limits, shown: &[], subject: Cow::Borrowed(key), shadow: false }
    }

    /// The name of the policy.
    #[must_use]
    pub fn name(&self) -> &Name {
        self.name
    }

    /// A charge on each limit.
    pub(crate) fn charges(&self, cost: Cost) -> Vec<Charge<'_>> {
        self.limits.iter().map(|limit| limit.charge(&self.subject).cost(cost)).collect()
    }

    /// The limits in numbers.
    pub(crate) fn described(&self) -> Vec<Described> {
        let both = self.limits.iter().zip(self.shown);
        both.map(|(limit, shown)| Described::of(&shown.name, limit)).collect()
    }

    /// Whether it decides and counts but never denies.
    pub(crate) const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// The most that could ever be granted at once.
    pub(crate) fn ceiling(&self) -> u64 {
        self.limits.iter().map(|limit| limit.rule().ceiling()).min().unwrap_or(0)
    }

    /// The decision in the words of the policy: the short name of the limit that decided, and what a
    /// policy in shadow mode would have answered, which neither denies nor delays.
    pub(crate) fn answer(&self, mut decision: Decision) -> Answer {
        if let Some(binding) = &decision.binding {
            let mut both = self.limits.iter().zip(self.shown);
            let short = both.find(|(limit, _)| limit.policy() == binding);
            decision.binding = short.map(|(_, shown)| shown.name.clone());
        }
        let shadow = (self.shadow && !decision.is_allowed()).then_some(decision.verdict);
        if self.shadow {
            decision.delay_ms = 0;
        }
        if shadow.is_some() {
            decision.verdict = Verdict::Allowed;
            decision.retry_after_ms = Some(0);
        }
        Answer { policy: self.name.clone(), decision, shadow }
    }
}
