//! The quota of another service, shared by several clients through a limiter.

use core::fmt;

use tollgate::{BoxFuture, Decision, Limit, Result};

use crate::decide::Decide;

/// Charges requests to a shared quota.
pub(super) trait SharedQuota: Send + Sync {
    /// Charges one request to a server.
    fn charge<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Decision>>;
}

/// A limiter, and the limit with the numbers of the quota.
pub(super) struct LimiterQuota<D> {
    pub(super) decider: D,
    pub(super) limit: Limit,
}

impl<D: Decide> SharedQuota for LimiterQuota<D> {
    fn charge<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Decision>> {
        Box::pin(async move { self.decider.decide(&[self.limit.charge(server)]).await })
    }
}

impl fmt::Debug for dyn SharedQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedQuota")
    }
}
