//! Decisions: the admissions of a request, and its response.

use tollgate_core::store::Store as _;
use tollgate_core::{Admission, Charge, Code, Decision, Error, RequestId};

use super::resolved::{ResolvedAdmission, ResolvedRequest};
use super::{CheckRequest, CheckResponse, Engine, Failure, Result, response};

impl Engine {
    /// Decides one request.
    pub(super) async fn decide(&self, request: CheckRequest<'_>) -> Result<CheckResponse> {
        let policies = self.policies.load();
        let resolved = ResolvedRequest::of(&policies, &request)?;
        let decided = match (resolved.main.single_charge(), request.request_id) {
            (Some(charge), None) => self.limiter.check(charge).await,
            _ => {
                let charges = resolved.main.charges();
                self.limiter.check(admission(&charges, request.id()?)).await
            }
        };
        let mut result = self.respond(&request, &resolved.main, decided);
        if !resolved.shadows.is_empty() {
            let result = std::slice::from_mut(&mut result);
            self.charge_shadows(&[&request], &[Ok(&resolved)], result).await;
        }
        result
    }

    /// Decides one request without waiting; `None` if it may have to wait, or needs more than one
    /// call to the store. Then nothing was charged.
    pub(super) fn decide_now(&self, request: &CheckRequest<'_>) -> Option<Result<CheckResponse>> {
        if request.request_id.is_some() || request.is_listed() {
            return None;
        }
        let policies = self.policies.load();
        let resolved = match ResolvedRequest::of(&policies, request) {
            Ok(resolved) => resolved.main,
            Err(failure) => return Some(Err(failure)),
        };
        let now = self.limiter.clock().now();
        let decided = self.limiter.store().decide_now(&resolved.single_charge()?, now)?;
        Some(self.respond(request, &resolved, decided))
    }

    /// Decides requests independently and in order, sharing round trips to the store.
    pub(super) async fn decide_many(
        &self,
        requests: &[CheckRequest<'_>],
    ) -> Vec<Result<CheckResponse>> {
        let policies = self.policies.load_full();
        let resolved: Vec<Result<ResolvedRequest<'_>>> =
            requests.iter().map(|request| ResolvedRequest::of(&policies, request)).collect();
        let charges: Vec<Vec<Charge<'_>>> = resolved
            .iter()
            .map(|resolved| resolved.as_ref().map_or_else(|_| vec![], |one| one.main.charges()))
            .collect();
        let both = charges.iter().zip(requests);
        let batch = both.filter(|(charges, _)| !charges.is_empty()).map(|(charges, request)| {
            // What is no request id was refused before.
            admission(charges, request.id().unwrap_or_default())
        });
        let mut decided = self.limiter.check_batch(batch).await.into_iter();
        let results = resolved.iter().zip(requests).map(|(resolved, request)| {
            let resolved = resolved.as_ref().map_err(Clone::clone)?;
            let decided = decided.next().unwrap_or_else(|| Err(missing_decision()));
            self.respond(request, &resolved.main, decided)
        });
        let mut results: Vec<Result<CheckResponse>> = results.collect();
        let resolved: Vec<_> = resolved.iter().map(Result::as_ref).collect();
        let requests: Vec<_> = requests.iter().collect();
        self.charge_shadows(&requests, &resolved, &mut results).await;
        results
    }

    /// Charges the policies in shadow mode of requests that the others have allowed. Whatever comes
    /// of it, the request stays allowed.
    async fn charge_shadows(
        &self,
        requests: &[&CheckRequest<'_>],
        resolved: &[Result<&ResolvedRequest<'_>, &Failure>],
        results: &mut [Result<CheckResponse>],
    ) {
        let mut places = Vec::new();
        let mut charges = Vec::new();
        let each = requests.iter().zip(resolved).zip(&*results).enumerate();
        for (place, ((request, resolved), result)) in each {
            let (Ok(resolved), Ok(response)) = (resolved, result) else { continue };
            if !response.decision.is_allowed() {
                continue;
            }
            let granted = resolved.granted(&response.decision);
            for shadow in &resolved.shadows {
                places.push((place, shadow, request.id().unwrap_or_default()));
                charges.push(shadow.charges_for(granted));
            }
        }
        if places.is_empty() {
            return;
        }
        let admissions = charges.iter().zip(&places).map(|(all, (.., id))| admission(all, *id));
        let decided = self.limiter.check_batch(admissions).await;
        for ((place, shadow, _), decided) in places.into_iter().zip(decided) {
            let added = self.shadowed(shadow, decided);
            if let Some(Ok(response)) = results.get_mut(place) {
                response.shadows.extend(added);
            }
        }
    }

    /// The response of a policy in shadow mode beside others.
    fn shadowed(
        &self,
        shadow: &ResolvedAdmission<'_>,
        decided: tollgate_core::Result<Decision>,
    ) -> Option<CheckResponse> {
        match decided {
            Ok(decision) => Some(shadow.respond(decision)),
            Err(error) => {
                self.observer.shadow_failed(shadow.first.policy.name(), &error);
                None
            }
        }
    }

    /// The response to charges. A policy in shadow mode also allows what could not be decided.
    fn respond(
        &self,
        request: &CheckRequest<'_>,
        resolved: &ResolvedAdmission<'_>,
        decided: tollgate_core::Result<Decision>,
    ) -> Result<CheckResponse> {
        self.writes.note(&decided);
        let charged = decided.as_ref().ok();
        let receipt = charged.and_then(|one| self.receipt_of(request, resolved, one));
        let policy = resolved.first.policy.name();
        match decided {
            Err(error) if resolved.is_shadow() && response::is_service_failure(error.code()) => {
                self.observer.shadow_failed(policy, &error);
                let undecided = Decision::denied(resolved.ceiling(), 0, self.now_ms_up(), 0);
                Ok(resolved.respond(undecided))
            }
            decided => match respond(resolved, decided) {
                Ok(response) => Ok(CheckResponse { receipt, ..response }),
                Err(failure) => Err(failure.under(policy)),
            },
        }
    }

    /// The response of [`Engine::acquire`], without charging anything.
    ///
    /// # Errors
    /// When the request is invalid, or the store cannot answer.
    pub async fn peek(&self, request: CheckRequest<'_>) -> Result<CheckResponse> {
        let policies = self.policies.load_full();
        let resolved = ResolvedRequest::of(&policies, &request)?;
        let peeked = self.limiter.peek(&resolved.main.charges()).await;
        let mut response = respond(&resolved.main, peeked)?;
        if response.decision.is_allowed() {
            let granted = resolved.granted(&response.decision);
            for shadow in &resolved.shadows {
                let peeked = self.limiter.peek(&shadow.charges_for(granted)).await;
                response.shadows.extend(self.shadowed(shadow, peeked));
            }
        }
        Ok(response)
    }
}

/// An admission under an id, which is kept for as long as the first limit says.
pub(super) fn admission<'a>(charges: &'a [Charge<'a>], id: Option<RequestId<'a>>) -> Admission<'a> {
    let admission = Admission::of(charges);
    let keep = charges.first().map(|first| first.limit.bounds().request_ids_are_kept_for());
    match (id, keep) {
        (Some(id), Some(keep)) => admission.request_id(id.keep_for(keep)),
        _ => admission,
    }
}

/// The decision in the names of the policies.
fn respond(
    resolved: &ResolvedAdmission<'_>,
    decided: tollgate_core::Result<Decision>,
) -> Result<CheckResponse> {
    let decision = decided?;
    match Failure::of_closed(&decision) {
        Some(refused) if !resolved.is_shadow() => Err(refused),
        _ => Ok(resolved.respond(decision)),
    }
}

/// The limiter returned fewer decisions than admissions.
pub(super) fn missing_decision() -> Error {
    Error::new(Code::CorruptState, "a decision of the batch is missing")
}
