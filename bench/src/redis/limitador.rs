//! The rival: limitador's asynchronous Redis storage, through its own limiter.

use std::collections::HashMap;
use std::sync::Arc;

use limitador::AsyncRateLimiter;
use limitador::limit::{Context, Expression, Limit, Namespace};
use limitador::storage::redis::AsyncRedisStorage;
use tokio::runtime::Runtime;

use super::callers::{Caller, Said};
use super::walk::Walk;
use super::{PERIOD_SECONDS, UNITS};
use crate::Result;

const NAMESPACE: &str = "bench";

/// A caller of limitador.
pub(super) struct OfLimitador {
    limiter: Arc<AsyncRateLimiter>,
    namespace: Namespace,
    walk: Walk,
}

/// Callers that share a limiter, on keys of their own.
pub(super) fn of_limitador(
    runtime: &Runtime,
    url: &str,
    walks: Vec<Walk>,
) -> Result<Vec<OfLimitador>> {
    let storage = runtime.block_on(AsyncRedisStorage::new(url)).map_err(|e| e.to_string())?;
    let limiter = Arc::new(AsyncRateLimiter::new_with_storage(Box::new(storage)));
    let user = Expression::parse("user").map_err(|error| error.to_string())?;
    limiter.add_limit(Limit::new(NAMESPACE, UNITS, PERIOD_SECONDS, [], [user]));
    let caller =
        |walk| OfLimitador { limiter: Arc::clone(&limiter), namespace: NAMESPACE.into(), walk };
    Ok(walks.into_iter().map(caller).collect())
}

impl Caller for OfLimitador {
    async fn call(&mut self) -> Result<Said> {
        let key = self.walk.step().to_owned();
        let context = Context::from(HashMap::from([("user".to_owned(), key)]));
        let checked =
            self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1).await;
        match checked.map_err(|error| error.to_string())?.limited {
            false => Ok(Said::Decided),
            true => Err("limitador denied a call".into()),
        }
    }
}
