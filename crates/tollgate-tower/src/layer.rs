//! The layer that puts a limit in front of a service.

use core::fmt;
use std::sync::Arc;

use tollgate::{Limit, Result};
use tower_layer::Layer;

use crate::builder::RateLimitBuilder;
use crate::decide::Decide;
use crate::extract::Extract;
use crate::gate::Gate;
use crate::service::RateLimit;

/// Puts limits in front of a service. Cheap to clone; clones share everything.
pub struct RateLimitLayer<D> {
    gate: Arc<Gate<D>>,
}

impl<D: Decide> RateLimitLayer<D> {
    /// One limit, one unit per request, charged to whom the extractor finds.
    ///
    /// # Errors
    /// None today: a single limit is always accepted.
    pub fn new(decider: D, limit: Limit, extract: impl Extract + 'static) -> Result<Self> {
        Self::builder(decider).limit(limit, extract).build()
    }

    /// A layer with settings of its own.
    pub fn builder(decider: D) -> RateLimitBuilder<D> {
        RateLimitBuilder::new(decider)
    }

    pub(crate) fn of(gate: Gate<D>) -> Self {
        Self { gate: Arc::new(gate) }
    }
}

impl<D, S> Layer<S> for RateLimitLayer<D> {
    type Service = RateLimit<S, D>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, Arc::clone(&self.gate))
    }
}

impl<D> Clone for RateLimitLayer<D> {
    fn clone(&self) -> Self {
        Self { gate: Arc::clone(&self.gate) }
    }
}

impl<D> fmt::Debug for RateLimitLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("gate", &self.gate).finish()
    }
}
