//! Which keys are throttled and which spend the most, and the last denials: per policy, for the
//! last minutes, in bounded memory.
//!
//! Metrics count everything and know no keys. This knows keys, and counts a sample of what happens
//! (`sampler`) in sketches of the largest totals (`sketch`). Keys stay as they are in this process
//! only: the status hashes them.

mod denials;
mod sampler;
mod sketch;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate::Verdict;
use tollgate::clock::{Clock, SystemClock};
use tollgate_service::Policies;
use tollgate_service::engine::{CheckRequest, CheckResponse, RequestedCharge, Target};
use tollgate_service::policy::AD_HOC_POLICY;

use self::denials::Denials;
use self::sampler::Sampler;
use self::sketch::{ENTRIES_MAX, Sketch, top};

pub(crate) use denials::Denial;
pub(crate) use sketch::Counted;

/// How many seconds a window has. Totals are those of the present one and of the one before.
pub(crate) const WINDOW_SECONDS: u64 = 300;

/// What keys do, per policy.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    clock: SystemClock,
    denied: Sampler,
    spent: Sampler,
    policies: Mutex<HashMap<Box<str>, PolicyActivity>>,
}

/// What the keys of a policy do.
#[derive(Debug, Default)]
pub(crate) struct PolicyActivity {
    throttled: Windows,
    /// The limits that denied, by name.
    denied_by: Windows,
    spenders: Windows,
    denials: Denials,
}

/// Totals of the present window, and of the one before.
#[derive(Debug, Default)]
struct Windows {
    present: Sketch,
    before: Sketch,
}

impl Activity {
    /// Records a decision, as far as it is in the sample. A replay is none.
    pub(crate) fn decided(&self, request: &CheckRequest<'_>, response: &CheckResponse) {
        if response.decision.replayed {
            return;
        }
        for one in std::iter::once(response).chain(&response.shadows).filter(|one| denies(one)) {
            if let Some(times) = self.denied.recorded_units(1) {
                self.record_denial(request, one, times);
            }
        }
        if denies(response) {
            return;
        }
        for charge in request.charges() {
            let granted = response.decision.granted().filter(|_| charge.up_to.is_some());
            let units = granted.unwrap_or(charge.cost).get();
            if let Some(units) = self.spent.recorded_units(units) {
                self.policy(policy_of(charge), |policy| policy.spenders.add(charge.key, units));
            }
        }
    }

    fn record_denial(&self, request: &CheckRequest<'_>, response: &CheckResponse, times: u64) {
        let name = response.policy.as_str();
        let mut charges = request.charges().iter();
        let Some(charge) = charges.find(|charge| policy_of(charge) == name) else { return };
        let only = response.limits.first().map(|limit| &limit.name);
        let denial = Denial {
            at_ms: self.clock.now() / 1_000,
            key: charge.key.into(),
            limit: response.decision.binding().or(only).cloned(),
            cost: charge.cost.get(),
            retry_after_ms: response.decision.retry_after_ms,
            times,
        };
        self.policy(name, |policy| {
            policy.throttled.add(charge.key, times);
            if let Some(limit) = &denial.limit {
                policy.denied_by.add(limit.as_str(), times);
            }
            policy.denials.add(denial);
        });
    }

    fn policy<T>(&self, name: &str, act: impl FnOnce(&mut PolicyActivity) -> T) -> T {
        let mut policies = self.lock();
        if let Some(policy) = policies.get_mut(name) {
            return act(policy);
        }
        act(policies.entry(name.into()).or_default())
    }

    /// Nothing panics while it is locked.
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, PolicyActivity>> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A second has passed.
    pub(crate) fn second_passed(&self) {
        self.denied.second_passed();
        self.spent.second_passed();
    }

    /// A window has passed. Policies that are not in force any more are forgotten.
    pub(crate) fn window_passed(&self, policies: &Policies) {
        self.lock().retain(|name, activity| {
            activity.throttled.pass();
            activity.denied_by.pass();
            activity.spenders.pass();
            **name == *AD_HOC_POLICY || policies.find(name).is_ok()
        });
    }

    /// Reads what the keys of a policy did.
    pub(crate) fn of<T>(&self, policy: &str, read: impl FnOnce(&PolicyActivity) -> T) -> T {
        match self.lock().get(policy) {
            Some(activity) => read(activity),
            None => read(&PolicyActivity::default()),
        }
    }

    /// One denial in this many is recorded, and one spent unit in this many.
    pub(crate) fn intervals(&self) -> (u64, u64) {
        (self.denied.interval(), self.spent.interval())
    }
}

impl PolicyActivity {
    /// The keys with the most denials, the first ones first.
    pub(crate) fn throttled(&self, most: usize) -> Vec<(&str, Counted)> {
        self.throttled.top(most)
    }

    /// The limits that denied the most, by name, and how often.
    pub(crate) fn denied_by(&self) -> impl Iterator<Item = (&str, u64)> {
        self.denied_by.top(ENTRIES_MAX).into_iter().map(|(limit, denied)| (limit, denied.count))
    }

    /// The keys that spent the most units, the first ones first.
    pub(crate) fn spenders(&self, most: usize) -> Vec<(&str, Counted)> {
        self.spenders.top(most)
    }

    /// The last denials, the newest first.
    pub(crate) fn denials(&self) -> impl Iterator<Item = &Denial> {
        self.denials.newest_first()
    }
}

impl Windows {
    fn add(&mut self, key: &str, amount: u64) {
        self.present.add(key, amount);
    }

    fn pass(&mut self) {
        self.before = std::mem::take(&mut self.present);
    }

    fn top(&self, most: usize) -> Vec<(&str, Counted)> {
        top(&self.present, &self.before, most)
    }
}

/// Whether a policy denied, or would have without shadow mode.
fn denies(response: &CheckResponse) -> bool {
    response.shadow.unwrap_or(response.decision.verdict) != Verdict::Allowed
}

/// The policy of a charge.
fn policy_of<'a>(charge: &RequestedCharge<'a>) -> &'a str {
    match charge.target {
        Target::Policy(name) => name,
        Target::Limit(limit) => limit.policy().as_str(),
    }
}

#[cfg(test)]
mod tests;
