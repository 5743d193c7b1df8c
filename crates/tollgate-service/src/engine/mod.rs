//! The engine behind every protocol: a request in, a decision out.
//!
//! It finds the policy, makes the charges, calls the limiter, and translates the decision into the
//! names of the policy. It contains no wire format; the limiter decides what happens in an outage.

mod observer;
mod readiness;
mod receipts;
mod request;
mod response;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_core::store::{BoxStore, Jitter, Store};
use tollgate_core::{Admission, Charge, Code, Decision, Error, Forecast, Limiter, RequestId};

use crate::policy::{AD_HOC_POLICY, Policies, ResolvedPolicy};
use crate::receipt::ReceiptKey;

use readiness::Writes;

pub use observer::EngineObserver;
pub use request::{BATCH_MAX, CheckRequest, KEY_MAX_BYTES, RefundRequest, Target};
pub use response::{CheckResponse, Failure, LimitsResponse, RefundResponse};

/// `Result` with the engine's [`Failure`].
pub type Result<T, E = Failure> = core::result::Result<T, E>;

/// Decides requests of every protocol, under policies that can be replaced at any time.
#[derive(Debug)]
pub struct Engine {
    limiter: Limiter<BoxStore>,
    policies: ArcSwap<Policies>,
    observer: Arc<dyn EngineObserver>,
    writes: Writes,
    /// Without a key there are no receipts.
    receipts: Option<ReceiptKey>,
    nonces: Jitter,
}

impl Engine {
    /// An engine over a limiter, without an observer. Receipts are valid in this process alone,
    /// unless [`Engine::with_receipt_key`] sets a key that others have too.
    #[must_use]
    pub fn new(limiter: Limiter<BoxStore>, policies: Policies) -> Self {
        Self {
            limiter,
            policies: ArcSwap::from_pointee(policies),
            observer: Arc::new(()),
            writes: Writes::default(),
            receipts: ReceiptKey::random(),
            nonces: Jitter::new(),
        }
    }

    /// Sets the observer.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn EngineObserver>) -> Self {
        self.observer = observer;
        self
    }

    /// Charges a key, if its policy allows it.
    ///
    /// # Errors
    /// When the request is invalid, or no decision could be made.
    pub async fn acquire(&self, request: CheckRequest<'_>) -> Result<CheckResponse> {
        let result = self.decide(request).await;
        self.observer.decided(&request, &result);
        result
    }

    async fn decide(&self, request: CheckRequest<'_>) -> Result<CheckResponse> {
        let policies = self.policies.load_full();
        let resolved = resolve(&policies, &request)?;
        let decided = match (resolved.single_charge(request.cost), request.request_id) {
            (Some(charge), None) => self.limiter.check(charge).await,
            (_, id) => {
                let charges = resolved.charges(request.cost);
                self.limiter.check(admission(&charges, id)?).await
            }
        };
        self.respond(&request, &resolved, decided)
    }

    /// The response to a charge. A policy in shadow mode also allows what could not be decided.
    fn respond(
        &self,
        request: &CheckRequest<'_>,
        resolved: &ResolvedPolicy<'_>,
        decided: tollgate_core::Result<Decision>,
    ) -> Result<CheckResponse> {
        self.writes.note(&decided);
        let charged = decided.as_ref().ok();
        let receipt = charged.and_then(|one| self.receipt_of(request, resolved, one));
        match decided {
            Err(error) if resolved.is_shadow() && response::is_service_failure(error.code()) => {
                self.observer.shadow_failed(resolved.name(), &error);
                let undecided = Decision::denied(resolved.ceiling(), 0, self.now_ms_up(), 0);
                Ok(resolved.respond(undecided))
            }
            decided => match respond(resolved, decided) {
                Ok(response) => Ok(CheckResponse { receipt, ..response }),
                Err(failure) => Err(failure.under(resolved.name())),
            },
        }
    }

    /// Charges several keys independently and in order, sharing round trips to the store.
    ///
    /// # Errors
    /// Each element fails on its own.
    pub async fn acquire_many(&self, requests: &[CheckRequest<'_>]) -> Vec<Result<CheckResponse>> {
        let policies = self.policies.load_full();
        let resolved: Vec<Result<ResolvedPolicy<'_>>> =
            requests.iter().map(|request| resolve(&policies, request)).collect();
        let charges: Vec<Vec<Charge<'_>>> = resolved
            .iter()
            .zip(requests)
            .map(|(resolved, request)| match resolved {
                Ok(resolved) => resolved.charges(request.cost),
                Err(_) => Vec::new(),
            })
            .collect();
        let admissions: Vec<Result<Admission<'_>>> = charges
            .iter()
            .zip(requests)
            .map(|(charges, request)| admission(charges, request.request_id))
            .collect();
        let both = resolved.iter().zip(&admissions);
        let batch: Vec<Admission<'_>> = both
            .clone()
            .filter_map(|(resolved, admission)| resolved.as_ref().ok().and(admission.as_ref().ok()))
            .copied()
            .collect();
        let mut decided = self.limiter.check_batch(&batch).await.into_iter();
        let mut next = |request: &CheckRequest<'_>, resolved: &ResolvedPolicy<'_>| {
            let decided = decided.next().unwrap_or_else(|| Err(missing_decision()));
            self.respond(request, resolved, decided)
        };
        let results = both.zip(requests).map(|(both, request)| match both {
            (Ok(resolved), Ok(_)) => next(request, resolved),
            (Err(failure), _) | (_, Err(failure)) => Err(failure.clone()),
        });
        let results: Vec<Result<CheckResponse>> = results.collect();
        self.observer.batch_decided(requests, &results);
        results
    }

    /// [`Engine::acquire_many`] for requests of a batch that may be invalid already. Failures name
    /// the element: `requests[2].cost`.
    ///
    /// # Errors
    /// When the batch is too long.
    pub async fn acquire_batch(
        &self,
        requests: Vec<Result<CheckRequest<'_>>>,
    ) -> Result<Vec<Result<CheckResponse>>> {
        if requests.len() > BATCH_MAX {
            let accepted = format!("has {} elements; accepted: up to {BATCH_MAX}", requests.len());
            return Err(Error::invalid("requests", accepted).into());
        }
        let valid: Vec<CheckRequest<'_>> = requests.iter().flatten().copied().collect();
        let mut decided = self.acquire_many(&valid).await.into_iter();
        let mut next = |_| decided.next().unwrap_or_else(|| Err(missing_decision().into()));
        let results = requests.into_iter().enumerate().map(|(index, request)| {
            let result = request.and_then(&mut next);
            result.map_err(|failure| failure.within(&format!("requests[{index}]")))
        });
        Ok(results.collect())
    }

    /// The response of [`Engine::acquire`], without charging anything.
    ///
    /// # Errors
    /// When the request is invalid, or the store cannot answer.
    pub async fn peek(&self, request: CheckRequest<'_>) -> Result<CheckResponse> {
        let policies = self.policies.load_full();
        let resolved = resolve(&policies, &request)?;
        respond(&resolved, self.limiter.peek(&resolved.charges(request.cost)).await)
    }

    /// What a key can spend now, and when more.
    ///
    /// # Errors
    /// When the request is invalid, or the store cannot answer.
    pub async fn forecast(&self, request: CheckRequest<'_>) -> Result<Forecast> {
        let policies = self.policies.load_full();
        let resolved = resolve(&policies, &request)?;
        Ok(self.limiter.forecast(&resolved.charges(request.cost)).await?)
    }

    /// The limits of a key, in numbers. The store is not called.
    ///
    /// # Errors
    /// When the request is invalid.
    pub fn limits(&self, request: CheckRequest<'_>) -> Result<LimitsResponse> {
        let policies = self.policies.load_full();
        let resolved = resolve(&policies, &request)?;
        let (policy, limits) = (resolved.name().clone(), resolved.infos());
        Ok(LimitsResponse { policy, limits, shadow: resolved.is_shadow() })
    }

    /// Forgets what a key has spent, also one of `CL.THROTTLE` (policy `cl.throttle`).
    ///
    /// # Errors
    /// When the request is invalid, or the store cannot answer.
    pub async fn reset(&self, request: CheckRequest<'_>) -> Result<()> {
        let policies = self.policies.load_full();
        // Keys of limits that were part of a request have no policy, but can be reset as well.
        let target = match request.target {
            Target::Policy(AD_HOC_POLICY) => Target::Limit(policies.ad_hoc()),
            target => target,
        };
        let resolved = resolve(&policies, &CheckRequest { target, ..request })?;
        let result = self.limiter.reset(&resolved.charges(request.cost)).await;
        let result = result.map_err(Failure::from);
        self.observer.reset(resolved.name(), request.key, &result);
        result
    }

    /// Epoch milliseconds by the clock of the limiter, rounded up as instants in decisions are.
    #[must_use]
    pub fn now_ms_up(&self) -> u64 {
        self.limiter.clock().now().div_ceil(1_000)
    }

    /// Decides under other policies from now on. What keys have spent stays spent; requests under
    /// way end under the policies they began with.
    pub fn replace_policies(&self, policies: Policies) {
        self.observer.policies_replaced(&policies);
        self.policies.store(Arc::new(policies));
    }

    /// Reports that new policies were refused, so that operators see it.
    pub fn refuse_policies(&self) {
        self.observer.policies_refused();
    }

    /// The policies in force.
    #[must_use]
    pub fn policies(&self) -> Arc<Policies> {
        self.policies.load_full()
    }

    /// The limiter: its store, its clock and its statistics.
    #[must_use]
    pub const fn limiter(&self) -> &Limiter<BoxStore> {
        &self.limiter
    }

    /// Whether the store is in this process, so that limits are per process.
    #[must_use]
    pub fn in_process(&self) -> bool {
        self.limiter.store().capability().in_process
    }

    /// Closes the store.
    pub async fn close(&self) {
        self.limiter.store().close().await;
    }
}

/// Finds the limits of a request.
fn resolve<'a>(policies: &'a Policies, request: &CheckRequest<'a>) -> Result<ResolvedPolicy<'a>> {
    request::validate_key(request.key)?;
    if let Some(id) = request.request_id {
        RequestId::new(id)?;
    }
    match request.target {
        Target::Policy(name) => Ok(policies.find(name)?.resolve(request.key)),
        Target::Limit(limit) => Ok(ResolvedPolicy::of_limit(limit, request.key)),
    }
}

fn admission<'a>(charges: &'a [Charge<'a>], id: Option<&'a str>) -> Result<Admission<'a>> {
    let admission = Admission::of(charges);
    Ok(match id {
        Some(id) => admission.request_id(RequestId::new(id)?),
        None => admission,
    })
}

/// The decision in the names of the policy.
fn respond(
    resolved: &ResolvedPolicy<'_>,
    decided: tollgate_core::Result<Decision>,
) -> Result<CheckResponse> {
    let decision = decided?;
    match Failure::of_closed(&decision) {
        Some(refused) if !resolved.is_shadow() => Err(refused),
        _ => Ok(resolved.respond(decision)),
    }
}

/// The limiter returned fewer decisions than admissions.
fn missing_decision() -> Error {
    Error::new(Code::CorruptState, "a decision of the batch is missing")
}
