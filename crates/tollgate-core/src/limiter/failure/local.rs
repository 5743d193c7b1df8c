//! Deciding alone: a shadow of the states in the store, with this process's share of the quota.
//!
//! While the store answers, every decision on a `local` limit is noted: the shadow owes at least
//! what this process charged, and at least its share of what all processes charged. So the switch
//! to deciding alone hands out no fresh budget, and N nodes together admit at most N × share ×
//! limit.

use std::collections::HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

use crate::charge::{Admission, Charge, Operation};
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::key::{Key, Name};
use crate::limit::Limit;
use crate::limiter::derive;
use crate::state::QuotaId;
use crate::store::{Evidence, Memory, SyncStore};
use crate::time::{MICROS_PER_MS, Micros};

/// The part of each quota that this process grants alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    numerator: u64,
    denominator: u64,
}

impl Share {
    /// The whole quota.
    pub const WHOLE: Self = Self { numerator: 1, denominator: 1 };

    /// `numerator / denominator` of the quota.
    ///
    /// # Errors
    /// `config_invalid` unless 0 < numerator ≤ denominator ≤ 2^32.
    pub fn new(numerator: u64, denominator: u64) -> Result<Self> {
        if numerator == 0 || numerator > denominator || denominator > 1 << 32 {
            let message =
                format!("{numerator}/{denominator} is out of range; accepted: above 0, at most 1");
            return Err(Error::config("share", message));
        }
        Ok(Self { numerator, denominator })
    }

    /// The share of one of `nodes` equal nodes.
    #[must_use]
    pub const fn one_of(nodes: std::num::NonZeroU32) -> Self {
        Self { numerator: 1, denominator: nodes.get() as u64 }
    }

    pub(super) fn of(self, units: u64) -> u64 {
        let share = u128::from(units) * u128::from(self.numerator);
        u64::try_from(share.div_ceil(u128::from(self.denominator))).unwrap_or(u64::MAX)
    }
}

/// Which limit, with which quota.
type LimitKey = (Name, Name, QuotaId);

/// How many scaled limits are kept; callers may bring quotas of their own.
const SCALED_MAX: usize = 4_096;

#[derive(Debug)]
pub(in crate::limiter) struct Local {
    pub(in crate::limiter) share: Share,
    /// Made when the first `local` limit is decided: other limits pay nothing for it.
    shadow: OnceLock<Memory>,
    /// Limits with this process's share of their quota.
    scaled: RwLock<HashMap<LimitKey, Limit>>,
}

impl Default for Local {
    fn default() -> Self {
        Self { share: Share::WHOLE, shadow: OnceLock::new(), scaled: RwLock::default() }
    }
}

impl Local {
    /// Notes what the store decided.
    pub(super) fn observe(&self, admission: &Admission<'_>, outcome: &Evidence, now: Micros) {
        if !admission.charges().iter().any(is_local) {
            return;
        }
        let Ok(planned) = derive::run(admission.charges(), outcome) else { return };
        // What cannot be scaled is never decided alone.
        let decided: Vec<(&Charge<'_>, &Decision, Limit)> = admission
            .charges()
            .iter()
            .zip(&planned.decisions)
            .filter(|(charge, _)| is_local(charge))
            .filter_map(|(charge, one)| Some((charge, one, self.scaled(charge.limit).ok()?)))
            .collect();
        // Of a range what was granted.
        let mirrored = decided.iter().map(|(charge, one, limit)| {
            charge.under(limit).exactly(one.granted().unwrap_or(charge.cost))
        });
        let mirrored: Vec<Charge<'_>> = mirrored.collect();
        // A request id is kept here too: its replay in an outage must charge nothing. But for a
        // range, of which this process might have granted less: it is decided anew.
        let is_exact = |charge: &Charge<'_>| charge.range().is_none();
        let is_kept = admission.request_id.is_some() && admission.charges().iter().all(is_exact);
        let together = admission.with_charges(&mirrored);
        let all = planned.admitted && is_kept && self.admits(&together, now);
        for (charge, (_, decision, _)) in mirrored.iter().zip(&decided) {
            let alone = Admission::of(core::slice::from_ref(charge));
            let exact = all || (planned.admitted && self.admits(&alone, now));
            let is_taken = planned.admitted && charge.operation == Operation::Take;
            // More passed here than this process may grant alone: then nothing is left.
            let here = if is_taken && !exact { charge.cost.get() } else { 0 };
            let spent_by_all = decision.limit.saturating_sub(decision.remaining);
            let by_all = (self.share.of(spent_by_all), decision.reset_at_ms * MICROS_PER_MS);
            self.shadow().owe_at_least(charge, here, by_all, now);
        }
    }

    /// Decides alone. Limits that are not `local` do not take part.
    pub(super) fn decide(&self, admission: &Admission<'_>, now: Micros) -> Result<Decision> {
        let limits = self.shares(admission)?;
        let mirrored = mirrored(admission, &limits);
        let alone = admission.with_charges(&mirrored);
        let outcome = self.shadow().admit_sync(&alone, now)?;
        let decision = derive::derive(&alone, &outcome)?.decision;
        match (&*mirrored, admission.charges()) {
            ([only], [_, _, ..]) => Ok(decision.with_binding(only.limit.policy().clone())),
            _ => Ok(decision),
        }
    }

    pub(in crate::limiter) fn forget(&self, key: Key<'_>) {
        if let Some(shadow) = self.shadow.get() {
            shadow.reset_locked(key);
        }
    }

    /// The `local` limits of an admission with this process's share of their quotas.
    fn shares(&self, admission: &Admission<'_>) -> Result<Vec<Limit>> {
        let local = admission.charges().iter().filter(|charge| is_local(charge));
        local.map(|charge| self.scaled(charge.limit)).collect()
    }

    /// Whether the shadow admits the charges as well.
    fn admits(&self, mirrored: &Admission<'_>, now: Micros) -> bool {
        let outcome = self.shadow().admit_sync(mirrored, now);
        let decided = outcome.and_then(|outcome| derive::derive(mirrored, &outcome));
        decided.is_ok_and(|derived| derived.decision.is_allowed())
    }

    fn shadow(&self) -> &Memory {
        self.shadow.get_or_init(Memory::new)
    }

    /// The limit with this process's share of the quota.
    fn scaled(&self, limit: &Limit) -> Result<Limit> {
        let key = (limit.prefix().clone(), limit.policy().clone(), limit.rule().quota_id());
        let max_debt = self.share.of(limit.debt_bound());
        if let Some(known) = self.scaled.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone().max_debt(max_debt));
        }
        let rule = limit.rule().scaled(self.share.numerator, self.share.denominator)?;
        let scaled = limit.clone().replace_rule(rule).max_debt(max_debt);
        let mut known = self.scaled.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < SCALED_MAX {
            known.insert(key, scaled.clone());
        }
        Ok(scaled)
    }
}

fn is_local(charge: &Charge<'_>) -> bool {
    charge.limit.may_be_local()
}

/// The `local` charges of an admission, on other limits.
fn mirrored<'a>(admission: &Admission<'a>, limits: &'a [Limit]) -> Vec<Charge<'a>> {
    let local = admission.charges().iter().filter(|charge| is_local(charge));
    local.zip(limits).map(|(charge, limit)| charge.under(limit)).collect()
}
