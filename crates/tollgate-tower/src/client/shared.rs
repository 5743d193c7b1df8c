//! A quota of somebody else's, shared by a fleet through a limiter.

use core::fmt;

use tollgate::{BoxFuture, Decision, Limit, Result};

use crate::decide::Decide;

/// Asks for one request within a shared quota.
pub(super) trait Ask: Send + Sync {
    fn ask<'a>(&'a self, subject: &'a str) -> BoxFuture<'a, Result<Decision>>;
}

/// A limiter, and the limit that stands for the quota.
pub(super) struct Shared<D> {
    pub(super) decider: D,
    pub(super) limit: Limit,
}

impl<D: Decide> Ask for Shared<D> {
    fn ask<'a>(&'a self, subject: &'a str) -> BoxFuture<'a, Result<Decision>> {
        Box::pin(async move { self.decider.decide(&[self.limit.charge(subject)]).await })
    }
}

impl fmt::Debug for dyn Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}
