//! Tollgate's callers: through the store alone, and through a limiter.

use std::sync::Arc;

use tollgate::store::{CallContext, Store as _};
use tollgate::{Admission, Limit, Limiter};
use tollgate_redis::Redis;

use super::callers::{Caller, Said};
use super::walk::Walk;
use crate::Result;

/// A caller of the store.
#[derive(Debug)]
pub(super) struct OfStore {
    store: Redis,
    limit: Arc<Limit>,
    walk: Walk,
}

/// Callers that share a store.
pub(super) fn of_store(url: &str, limit: &Arc<Limit>, walks: Vec<Walk>) -> Result<Vec<OfStore>> {
    let store = url.parse().and_then(Redis::open).map_err(|error| error.to_string())?;
    let caller = |walk| OfStore { store: store.clone(), limit: Arc::clone(limit), walk };
    Ok(walks.into_iter().map(caller).collect())
}

impl Caller for OfStore {
    async fn call(&mut self) -> Result<Said> {
        let charges = [self.limit.charge(self.walk.step())];
        let outcome = self.store.admit(&Admission::of(&charges), CallContext::store_clock()).await;
        outcome.map(|_| Said::Decided).map_err(|error| error.to_string())
    }
}

/// A caller of a limiter.
#[derive(Debug)]
pub(super) struct OfLimiter {
    limiter: Arc<Limiter<Redis>>,
    limit: Arc<Limit>,
    walk: Walk,
}

/// Callers that share a limiter.
pub(super) fn of_limiter(
    url: &str,
    limit: &Arc<Limit>,
    walks: Vec<Walk>,
) -> Result<Vec<OfLimiter>> {
    let store = url.parse().and_then(Redis::open).map_err(|error| error.to_string())?;
    let limiter = Arc::new(Limiter::new(store));
    let caller = |walk| OfLimiter { limiter: Arc::clone(&limiter), limit: Arc::clone(limit), walk };
    Ok(walks.into_iter().map(caller).collect())
}

impl Caller for OfLimiter {
    async fn call(&mut self) -> Result<Said> {
        let decision = self.limiter.check(self.limit.charge(self.walk.step())).await;
        let decision = decision.map_err(|error| error.to_string())?;
        match (decision.is_allowed(), decision.degraded) {
            (true, None) => Ok(Said::Decided),
            (_, Some(_)) => Ok(Said::Undecided),
            (false, None) => Err(format!("an unexpected decision: {decision:?}")),
        }
    }
}
