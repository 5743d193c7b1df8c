//! The layer that limits a service.

use core::fmt;
use std::sync::Arc;

use tollgate::{Limit, Result};
use tower_layer::Layer;

use crate::builder::RateLimitBuilder;
use crate::decide::Decide;
use crate::enforce::Enforcer;
use crate::extract::Extract;
use crate::service::RateLimit;

/// Limits the requests to a service. Clones are cheap and share everything.
///
/// ```
/// use std::net::SocketAddr;
///
/// use tollgate::{Limit, Limiter, Quota, algorithm::Gcra};
/// use tollgate_tower::{RateLimitLayer, extract::ClientIp};
///
/// // 100 requests a minute for each client address.
/// let limit = Limit::new("per-client", Gcra::new(Quota::per_minute(100))?)?;
/// let client = ClientIp::peer::<SocketAddr>();
/// let layer = RateLimitLayer::new(Limiter::in_memory(), limit, client)?;
/// # Ok::<(), tollgate::Error>(())
/// ```
pub struct RateLimitLayer<D> {
    enforcer: Arc<Enforcer<D>>,
}

impl<D: Decide> RateLimitLayer<D> {
    /// One limit; each request is charged one unit, to the subject that the extractor reads.
    ///
    /// # Errors
    /// None today: a single limit is always accepted.
    pub fn new(decider: D, limit: Limit, extract: impl Extract + 'static) -> Result<Self> {
        Self::builder(decider).limit(limit, extract).build()
    }

    /// Builds a layer of several limits, or with other settings.
    pub fn builder(decider: D) -> RateLimitBuilder<D> {
        RateLimitBuilder::new(decider)
    }

    pub(crate) fn of(enforcer: Enforcer<D>) -> Self {
        Self { enforcer: Arc::new(enforcer) }
    }
}

impl<D, S> Layer<S> for RateLimitLayer<D> {
    type Service = RateLimit<S, D>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, Arc::clone(&self.enforcer))
    }
}

impl<D> Clone for RateLimitLayer<D> {
    fn clone(&self) -> Self {
        Self { enforcer: Arc::clone(&self.enforcer) }
    }
}

impl<D> fmt::Debug for RateLimitLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("enforcer", &self.enforcer).finish()
    }
}
