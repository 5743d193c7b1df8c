//! Builds a layer.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tollgate::{Error, Limit, Outage, OutageMode, Result};
use tollgate_http::{Dialect, QuotaPolicy, RateLimitFields};

use crate::decide::Decide;
use crate::enforce::Enforcer;
use crate::event::Event;
use crate::extract::Extract;
use crate::layer::RateLimitLayer;
use crate::limit_rule::LimitRule;
use crate::refusal::Refusal;
use crate::request_parts::RequestParts;

/// The longest delay of a request by default.
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Builds a [`RateLimitLayer`].
///
/// ```
/// use tollgate::algorithm::Gcra;
/// use tollgate::{Limit, Limiter, OutageMode, Quota};
/// use tollgate_tower::RateLimitLayer;
/// use tollgate_tower::extract::{Global, Header};
///
/// let tenant = Header::new(http::HeaderName::from_static("x-tenant"));
/// let layer = RateLimitLayer::builder(Limiter::in_memory())
///     .limit(Limit::new("per-tenant", Gcra::new(Quota::per_second(10))?)?, tenant)
///     .limit(Limit::new("service", Gcra::new(Quota::per_second(1_000))?)?, Global)
///     .skip(|request| request.uri.path() == "/healthz")
///     .on_outage(OutageMode::Closed)
///     .build()?;
/// # Ok::<(), tollgate::Error>(())
/// ```
#[must_use]
pub struct RateLimitBuilder<D> {
    enforcer: Enforcer<D>,
    dialects: Vec<Dialect>,
}

impl<D: Decide> RateLimitBuilder<D> {
    pub(crate) fn new(decider: D) -> Self {
        let enforcer = Enforcer {
            decider,
            rules: Vec::new(),
            skip: Vec::new(),
            fields: RateLimitFields::default(),
            listener: None,
            customize: None,
            max_delay: MAX_DELAY,
            is_shadow: false,
            settles_at_end: false,
        };
        Self { enforcer, dialects: vec![Dialect::Draft11] }
    }

    /// Adds a limit that charges one unit per request to the subject that the extractor reads. All
    /// limits of a layer are charged together, all or nothing.
    pub fn limit(self, limit: Limit, extract: impl Extract + 'static) -> Self {
        self.limit_rule(LimitRule::new(limit, extract))
    }

    /// Adds a limit with another cost, with settlement or with delays.
    pub fn limit_rule(mut self, rule: LimitRule) -> Self {
        self.enforcer.settles_at_end |= rule.settles_at_end;
        self.enforcer.rules.push(rule);
        self
    }

    /// Sets the outage mode of all limits that were added so far. Otherwise each limit keeps its
    /// own.
    pub fn on_outage(self, mode: OutageMode) -> Self {
        self.map_limits(|limit| limit.on_outage(mode))
    }

    /// Chooses the outage mode of all limits that were added so far, separately for every decision
    /// that the store could not make. The closure may log the outage.
    pub fn choose_on_outage(
        self,
        choose: impl Fn(&Outage<'_>) -> OutageMode + Send + Sync + 'static,
    ) -> Self {
        let choose = Arc::new(choose);
        self.map_limits(|limit| {
            let choose = Arc::clone(&choose);
            limit.choose_on_outage(move |outage| choose(outage))
        })
    }

    /// Forwards requests for which the rule is true without charging them: health checks, allow
    /// lists.
    pub fn skip(
        mut self,
        rule: impl Fn(&RequestParts<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.enforcer.skip.push(Box::new(rule));
        self
    }

    /// Shadow mode: charges requests and emits events, but neither refuses nor delays a request,
    /// and writes no headers.
    pub fn shadow(mut self) -> Self {
        self.enforcer.is_shadow = true;
        self
    }

    /// The dialects of the `RateLimit` fields in all responses; an empty list writes no fields.
    pub fn headers(mut self, dialects: impl IntoIterator<Item = Dialect>) -> Self {
        self.dialects = dialects.into_iter().collect();
        self
    }

    /// Changes the response to a refused request. The closure gets the complete default response.
    pub fn respond_with(
        mut self,
        change: impl Fn(&Refusal<'_>, Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.enforcer.customize = Some(Box::new(change));
        self
    }

    /// Calls a listener for each request, for logs and metrics. It must not block.
    pub fn on_event(mut self, listener: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.enforcer.listener = Some(Box::new(listener));
        self
    }

    /// The longest delay of a request, 10 seconds by default. A request that a shaper would delay
    /// for longer is refused, and its charges are refunded.
    pub fn max_delay(mut self, max: Duration) -> Self {
        self.enforcer.max_delay = max;
        self
    }

    /// Builds the layer.
    ///
    /// # Errors
    /// `config_invalid` with the field `limits` when there is no limit or two have the same name,
    /// and with the field `headers` when two dialects use one header.
    pub fn build(mut self) -> Result<RateLimitLayer<D>> {
        let limits: Vec<&Limit> = self.enforcer.rules.iter().map(|rule| &rule.limit).collect();
        if limits.is_empty() {
            return Err(Error::config("limits", "there is none; accepted: one or more"));
        }
        for (index, one) in limits.iter().enumerate() {
            let names = |limit: &Limit| (limit.prefix().clone(), limit.policy().clone());
            if limits.iter().take(index).any(|other| names(other) == names(one)) {
                let message = format!("two are named {}; accepted: distinct names", one.policy());
                return Err(Error::config("limits", message));
            }
        }
        let policies: Vec<_> = limits.into_iter().map(QuotaPolicy::from).collect();
        self.enforcer.fields = RateLimitFields::new(self.dialects, &policies)?;
        Ok(RateLimitLayer::of(self.enforcer))
    }

    fn map_limits(mut self, change: impl Fn(Limit) -> Limit) -> Self {
        let rules = self.enforcer.rules.into_iter();
        self.enforcer.rules = rules.map(|rule| rule.map_limit(&change)).collect();
        self
    }
}

impl<D> fmt::Debug for RateLimitBuilder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitBuilder").field("enforcer", &self.enforcer).finish_non_exhaustive()
    }
}
