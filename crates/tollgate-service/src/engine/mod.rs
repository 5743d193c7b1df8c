//! The engine behind every protocol: a request in, a decision out.
//!
//! It finds the policy, makes the charges, calls the limiter, and translates the decision into the
//! names of the policy. It contains no wire format; the limiter decides what happens in an outage.

mod decide;
mod final_costs;
mod observer;
mod readiness;
mod receipts;
mod request;
mod resolved;
mod response;
mod settle;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_core::store::{BoxStore, Jitter, Store};
use tollgate_core::{Error, Forecast, Limiter};

use crate::auth::{Rights, Role};
use crate::policy::{AD_HOC_POLICY, Policies};
use crate::receipt::{ReceiptKey, ReceiptKeys};

use decide::missing_decision;
use readiness::Writes;
use resolved::{ResolvedCharge, ResolvedRequest, resolve_each};

pub use observer::EngineObserver;
pub use request::{
    BATCH_MAX, CheckRequest, FinalCosts, KEY_MAX_BYTES, RefundRequest, RequestedCharge,
    SettleRequest, Target, range,
};
pub use response::{
    CheckResponse, Failure, LimitsResponse, PolicyLimits, SettleResponse, SettledLimit,
};

/// `Result` with the engine's [`Failure`].
pub type Result<T, E = Failure> = core::result::Result<T, E>;

/// Decides requests of every protocol, under policies that can be replaced at any time.
#[derive(Debug)]
pub struct Engine {
    limiter: Limiter<BoxStore>,
    policies: ArcSwap<Policies>,
    observer: Arc<dyn EngineObserver>,
    writes: Writes,
    receipts: ArcSwap<ReceiptKeys>,
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
            receipts: ArcSwap::from_pointee(ReceiptKeys::new(ReceiptKey::random())),
            nonces: Jitter::new(),
        }
    }

    /// Sets the observer.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn EngineObserver>) -> Self {
        self.observer = observer;
        self
    }

    /// Charges a key, or several, if all of their policies allow it.
    ///
    /// # Errors
    /// When the request is invalid, or no decision could be made.
    pub async fn acquire(&self, request: CheckRequest<'_>) -> Result<CheckResponse> {
        let result = self.decide(request).await;
        self.observer.decided(&request, &result);
        result
    }

    /// [`Engine::acquire`] without a future, for the request that most clients make: one charge
    /// under one limit, without an id, over a store that never waits. `None` for any other, of
    /// which nothing was charged.
    ///
    /// # Errors
    /// As [`Engine::acquire`].
    pub fn acquire_now(&self, request: &CheckRequest<'_>) -> Option<Result<CheckResponse>> {
        let result = self.decide_now(request)?;
        self.observer.decided(request, &result);
        Some(result)
    }

    /// Decides requests independently and in order, sharing round trips to the store.
    ///
    /// # Errors
    /// Each element fails on its own.
    pub async fn acquire_many(&self, requests: &[CheckRequest<'_>]) -> Vec<Result<CheckResponse>> {
        let results = self.decide_many(requests).await;
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
        let results = self.acquire_each(requests).await.into_iter().enumerate();
        let named = |(index, result): (usize, Result<CheckResponse>)| {
            result.map_err(|failure| failure.within(&format!("requests[{index}]")))
        };
        Ok(results.map(named).collect())
    }

    /// [`Engine::acquire_many`] for requests that may be invalid already.
    ///
    /// # Errors
    /// Each element fails on its own.
    pub async fn acquire_each(
        &self,
        requests: Vec<Result<CheckRequest<'_>>>,
    ) -> Vec<Result<CheckResponse>> {
        let valid: Vec<CheckRequest<'_>> = requests.iter().flatten().copied().collect();
        let mut decided = self.acquire_many(&valid).await.into_iter();
        let mut next = |_| decided.next().unwrap_or_else(|| Err(missing_decision().into()));
        requests.into_iter().map(|request| request.and_then(&mut next)).collect()
    }

    /// What the keys of a request can spend now, and when more: what every one of them can. Costs
    /// do not matter.
    ///
    /// # Errors
    /// When the request is invalid, or the store cannot answer.
    pub async fn forecast(&self, request: CheckRequest<'_>) -> Result<Forecast> {
        let policies = self.policies.load_full();
        let resolved = ResolvedRequest::of(&policies, &request)?;
        Ok(self.limiter.forecast(&resolved.deciding()).await?)
    }

    /// The limits of a key, or of several, in numbers. The store is not called.
    ///
    /// # Errors
    /// When the request is invalid.
    pub fn limits(&self, request: CheckRequest<'_>) -> Result<LimitsResponse> {
        let policies = self.policies.load_full();
        let charges = resolve_each(&policies, &request)?.into_iter().map(|charge| PolicyLimits {
            policy: charge.policy.name().clone(),
            limits: charge.policy.infos(),
            shadow: charge.policy.is_shadow(),
        });
        Ok(LimitsResponse { charges: charges.collect() })
    }

    /// Forgets what a key has spent, also one of `CL.THROTTLE` (policy `cl.throttle`).
    ///
    /// # Errors
    /// When the client is no administrator of the policy, the request is invalid, or the store
    /// cannot answer.
    pub async fn reset(&self, policy: &str, key: &str, rights: &Rights) -> Result<()> {
        rights.permit(Role::Admin)?;
        let policies = self.policies.load_full();
        // Keys of limits that were part of a request have no policy, but can be reset as well.
        let target = match policy {
            AD_HOC_POLICY => Target::Limit(policies.ad_hoc()),
            name => Target::Policy(name),
        };
        let requested = RequestedCharge::under(target, key);
        let resolved = ResolvedCharge::of(&policies, requested, &rights.policies)?;
        let result = self.limiter.reset(&resolved.units()).await.map_err(Failure::from);
        self.observer.reset(resolved.policy.name(), key, &result);
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
        let policies = Arc::new(policies);
        // Counters of the new ones begin before the first decision.
        self.observer.policies_replaced(&self.policies.load(), &policies);
        self.policies.store(policies);
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
