//! The rival: limitador's asynchronous Redis storage, through its own limiter.

use std::collections::HashMap;
use std::sync::Arc;

use limitador::AsyncRateLimiter;
use limitador::limit::{Context, Expression, Limit, Namespace};
use limitador::storage::redis::AsyncRedisStorage;
use tokio::runtime::Runtime;

use super::callers::{Caller, Said};
use super::{PERIOD_SECONDS, UNITS};
use crate::Result;

const NAMESPACE: &str = "bench";

/// A caller of limitador.
pub(super) struct OfLimitador {
    limiter: Arc<AsyncRateLimiter>,
    namespace: Namespace,
    keys: Arc<[String]>,
    next: usize,
    stride: usize,
}

/// Callers that share a limiter, on keys of their own.
pub(super) fn of_limitador(
    runtime: &Runtime,
    url: &str,
    keys: &Arc<[String]>,
    count: usize,
) -> Result<Vec<OfLimitador>> {
    let storage = runtime.block_on(AsyncRedisStorage::new(url)).map_err(|e| e.to_string())?;
    let limiter = Arc::new(AsyncRateLimiter::new_with_storage(Box::new(storage)));
    let user = Expression::parse("user").map_err(|error| error.to_string())?;
    limiter.add_limit(Limit::new(NAMESPACE, UNITS, PERIOD_SECONDS, [], [user]));
    let caller = |next| OfLimitador {
        limiter: Arc::clone(&limiter),
        namespace: NAMESPACE.into(),
        keys: Arc::clone(keys),
        next,
        stride: count,
    };
    Ok((0..count).map(caller).collect())
}

impl Caller for OfLimitador {
    async fn call(&mut self) -> Result<Said> {
        let key = self.keys[self.next % self.keys.len()].clone();
        self.next += self.stride;
        let context = Context::from(HashMap::from([("user".to_owned(), key)]));
        let checked =
            self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1).await;
        match checked.map_err(|error| error.to_string())?.limited {
            false => Ok(Said::Decided),
            true => Err("limitador denied a call".into()),
        }
    }
}
