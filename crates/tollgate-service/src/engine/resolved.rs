//! A request under the policies: the admissions that decide it, and the names of their decisions.
//!
//! All charges of a request are one admission. A policy in shadow mode is an admission of its own,
//! made once the others have allowed: its denial must not deny them, and what they deny must not be
//! charged to it.

use std::sync::Arc;

use tollgate_core::{Charge, Code, Cost, Decision, Error, Limit, Verdict};

use super::request::{self, CheckRequest, RequestedCharge, Target};
use super::{CheckResponse, Failure, Result};
use crate::auth::Scope;
use crate::policy::{LIMITS_MAX, LimitName, Policies, ResolvedPolicy};

/// A charge of a request, with the limits of its policy.
#[derive(Debug)]
pub(super) struct ResolvedCharge<'a> {
    pub(super) requested: RequestedCharge<'a>,
    pub(super) policy: ResolvedPolicy<'a>,
}

/// Charges that are decided together, all or nothing. All are in shadow mode, or none.
#[derive(Debug)]
pub(super) struct ResolvedAdmission<'a> {
    pub(super) first: ResolvedCharge<'a>,
    others: Vec<ResolvedCharge<'a>>,
}

/// The admissions of a request.
#[derive(Debug)]
pub(super) struct ResolvedRequest<'a> {
    /// The charges of policies that deny; without one, those of the first policy.
    pub(super) main: ResolvedAdmission<'a>,
    /// Those of each other policy in shadow mode.
    pub(super) shadows: Vec<ResolvedAdmission<'a>>,
}

impl<'a> ResolvedCharge<'a> {
    /// Finds the limits of a charge, if its policy is within the scope of the caller: others are
    /// not looked for.
    pub(super) fn of(
        policies: &'a Policies,
        requested: RequestedCharge<'a>,
        scope: &Scope,
    ) -> Result<Self> {
        request::validate_key(requested.key)?;
        let policy = match requested.target {
            Target::Policy(name) => {
                scope.permit(name)?;
                policies.find(name)?.resolve(requested.key)
            }
            Target::Limit(limit) => {
                scope.permit(limit.policy().as_str())?;
                ResolvedPolicy::of_limit(limit, requested.key)
            }
        };
        Ok(Self { requested, policy })
    }

    /// A charge of the requested units on each limit.
    pub(super) fn units(&self) -> Vec<Charge<'_>> {
        self.charges(self.requested).collect()
    }

    /// A charge of these units on each limit.
    fn charges(&self, units: RequestedCharge<'a>) -> impl Iterator<Item = Charge<'_>> {
        self.policy.limits().map(move |limit| units.of(self.policy.charge(limit)))
    }

    /// Refuses a policy of which the caller has to learn a delay, and cannot.
    fn without_delay(self) -> Result<Self> {
        let delays = |limit: &Limit| limit.rule().describe().shaped;
        if self.policy.is_shadow() || !self.policy.limits().any(delays) {
            return Ok(self);
        }
        let message = "delays what it allows, and the reply to this request has no place for a \
                       delay; accepted: /v1/acquire, gRPC, RESP 3 or FULL, the gate with \
                       delay=header";
        let error = Error::new(Code::Unsupported, message).with_field("policy");
        Err(Failure::from(error).under(self.policy.name()))
    }
}

impl<'a> ResolvedRequest<'a> {
    /// Finds the limits of a request.
    pub(super) fn of(policies: &'a Policies, request: &CheckRequest<'a>) -> Result<Self> {
        request.id()?;
        if let ([charge], false) = (request.charges(), request.is_listed()) {
            let main = ResolvedAdmission::of(resolve(policies, request, charge)?);
            return Ok(Self { main, shadows: Vec::new() });
        }
        let mut admissions: Vec<ResolvedAdmission<'a>> = Vec::new();
        for charge in resolve_each(policies, request)? {
            match admissions.iter_mut().find(|one| one.takes(&charge)) {
                Some(admission) => admission.others.push(charge),
                None => admissions.push(ResolvedAdmission::of(charge)),
            }
        }
        let denies = |one: &ResolvedAdmission<'_>| !one.is_shadow();
        let main = admissions.iter().position(denies).unwrap_or(0);
        if admissions.is_empty() {
            return Err(no_charges().into());
        }
        Ok(Self { main: admissions.remove(main), shadows: admissions })
    }

    /// The units that a decision grants to ranges, for the policies in shadow mode.
    pub(super) fn granted(&self, decision: &Decision) -> Option<Cost> {
        let each = decision.parts().iter().map(Decision::granted);
        let most = each.fold(decision.granted(), Option::max);
        most.filter(|_| !self.main.is_shadow())
    }

    /// Every charge that counts for what can be spent: those of policies that deny, or else all.
    pub(super) fn deciding(&self) -> Vec<Charge<'_>> {
        let others: &[ResolvedAdmission<'_>] =
            if self.main.is_shadow() { &self.shadows } else { &[] };
        std::iter::once(&self.main).chain(others).flat_map(ResolvedAdmission::each).collect()
    }
}

/// Finds the limits of each charge of a request that lists them.
pub(super) fn resolve_each<'a>(
    policies: &'a Policies,
    request: &CheckRequest<'a>,
) -> Result<Vec<ResolvedCharge<'a>>> {
    let charges = request.charges();
    let too_many = |count: String| {
        let accepted = format!("has {count}; accepted: up to {LIMITS_MAX} limits in all");
        Err(Error::invalid("charges", accepted).into())
    };
    if charges.is_empty() {
        return Err(no_charges().into());
    }
    if charges.len() > LIMITS_MAX {
        return too_many(format!("{} elements", charges.len()));
    }
    let element = |(index, charge)| {
        let resolved = resolve(policies, request, charge);
        let is_listed = request.is_listed();
        resolved.map_err(|failure| match is_listed {
            true => failure.within(&format!("charges[{index}]")),
            false => failure,
        })
    };
    let resolved: Result<Vec<_>> = charges.iter().enumerate().map(element).collect();
    let resolved = resolved?;
    let limits = resolved.iter().map(|one| one.policy.limits().count()).sum::<usize>();
    if limits > LIMITS_MAX { too_many(format!("{limits} limits")) } else { Ok(resolved) }
}

fn resolve<'a>(
    policies: &'a Policies,
    request: &CheckRequest<'a>,
    charge: &RequestedCharge<'a>,
) -> Result<ResolvedCharge<'a>> {
    let resolved = ResolvedCharge::of(policies, *charge, request.scope())?;
    if request.carries_delay { Ok(resolved) } else { resolved.without_delay() }
}

fn no_charges() -> Error {
    Error::invalid("charges", format!("is empty; accepted: 1 to {LIMITS_MAX} charges"))
}

impl<'a> ResolvedAdmission<'a> {
    const fn of(first: ResolvedCharge<'a>) -> Self {
        Self { first, others: Vec::new() }
    }

    /// Whether a charge of the same request is decided together with these.
    fn takes(&self, charge: &ResolvedCharge<'_>) -> bool {
        match (self.is_shadow(), charge.policy.is_shadow()) {
            (false, false) => true,
            (true, true) => self.first.policy.name() == charge.policy.name(),
            _ => false,
        }
    }

    /// Whether these charges deny nothing.
    pub(super) const fn is_shadow(&self) -> bool {
        self.first.policy.is_shadow()
    }

    /// The charges of the request.
    pub(super) fn requested(&self) -> impl Iterator<Item = &ResolvedCharge<'a>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn each(&self) -> impl Iterator<Item = Charge<'_>> {
        self.requested().flat_map(|one| one.charges(one.requested))
    }

    /// A charge on each limit.
    pub(super) fn charges(&self) -> Vec<Charge<'_>> {
        self.each().collect()
    }

    /// A charge on each limit, of each range for the units that were granted elsewhere.
    pub(super) fn charges_for(&self, granted: Option<Cost>) -> Vec<Charge<'_>> {
        self.requested().flat_map(|one| one.charges(one.requested.granting(granted))).collect()
    }

    /// The charge, if there is one limit.
    pub(super) fn single_charge(&self) -> Option<Charge<'_>> {
        let mut charges = self.each();
        let (Some(charge), None) = (charges.next(), charges.next()) else { return None };
        Some(charge)
    }

    /// The most that could ever be granted at once.
    pub(super) fn ceiling(&self) -> u64 {
        self.each().map(|charge| charge.rule().ceiling()).min().unwrap_or(0)
    }

    /// The names of the limits, in the order in which they are charged.
    fn names(&self) -> Arc<[LimitName]> {
        if self.others.is_empty() {
            return self.first.policy.names();
        }
        self.requested().flat_map(|one| one.policy.names().to_vec()).collect()
    }

    /// Of ranges the number of units that all of them could take; absent without a range.
    fn most(&self) -> Option<Cost> {
        self.requested().filter_map(|one| one.requested.up_to).min()
    }

    /// The decision in the names of the policies. In shadow mode it neither denies nor delays nor
    /// cuts a range, and the response says what the policy would have decided.
    pub(super) fn respond(&self, mut decision: Decision) -> CheckResponse {
        let binding = decision.binding().and_then(|name| {
            self.requested().find_map(|one| Some((one, one.policy.limit_named(name)?)))
        });
        let deciding = binding.map_or(&self.first, |(charge, _)| charge);
        if let Some((_, limit)) = binding {
            decision = decision.with_binding(limit.clone());
        }
        let mut granted = self.most().map(|_| decision.granted().map_or(0, Cost::get));
        let is_shadow = self.is_shadow();
        let shadow = (is_shadow && !decision.is_allowed()).then_some(decision.verdict);
        if is_shadow {
            decision.delay_ms = 0;
            granted = self.most().map(Cost::get);
        }
        if shadow.is_some() {
            decision.verdict = Verdict::Allowed;
            decision.retry_after_ms = Some(0);
        }
        let (policy, limits) = (deciding.policy.name().clone(), self.names());
        CheckResponse { policy, decision, limits, granted, shadow, receipt: None, shadows: vec![] }
    }
}
