//! A request under its policy: from a key to charges, and from a decision to an answer.

use tollgate::{Charge, Cost, Decision, Limit, Name};

use super::Policy;
use crate::engine::Answer;

/// The limits that a request is decided under, and for whom.
#[derive(Debug)]
pub struct Asked<'a> {
    name: &'a Name,
    limits: &'a [Limit],
    subject: &'a str,
}

impl<'a> Asked<'a> {
    pub(super) fn of_policy(policy: &'a Policy, key: &'a str) -> Self {
        Self { name: &policy.name, limits: &policy.limits, subject: key }
    }

    /// A limit that the request itself brought.
    pub(crate) fn of_limit(limit: &'a Limit, key: &'a str) -> Self {
        Self { name: limit.policy(), limits: std::slice::from_ref(limit), subject: key }
    }

    /// The name of the policy.
    #[must_use]
    pub fn name(&self) -> &Name {
        self.name
    }

    /// A charge on each limit.
    pub(crate) fn charges(&self, cost: Cost) -> Vec<Charge<'_>> {
        self.limits.iter().map(|limit| limit.charge(self.subject).cost(cost)).collect()
    }

    /// The decision in the words of the policy.
    pub(crate) fn answer(&self, decision: Decision) -> Answer {
        Answer { policy: self.name.clone(), decision, shadow: None }
    }
}
