//! One limit of a layer: the limit, its subject, the cost of a request, and how that is settled.

use core::fmt;
use core::time::Duration;

use http::{Extensions, HeaderMap, StatusCode};
use tollgate::{Cost, Decision, Limit};

use crate::extract::{Extract, ExtractError, ExtractErrorKind};
use crate::request_parts::RequestParts;
use crate::subject::Subject;
#[cfg(doc)]
use crate::usage::Usage;

type CostOf = dyn Fn(&RequestParts<'_>) -> Cost + Send + Sync;
type UnitsOf = dyn Fn(&ResponseParts<'_>) -> u64 + Send + Sync;

/// The response to an admitted request, without its body.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ResponseParts<'a> {
    /// The cost that the request was charged.
    pub cost: Cost,
    /// The status of the response.
    pub status: StatusCode,
    /// The headers of the response. They hold a gRPC status only if the call failed at once.
    pub headers: &'a HeaderMap,
    /// What the service added: a count of rows, a price.
    pub extensions: &'a Extensions,
}

/// A limit of a layer, with the subject and the cost of a request.
///
/// ```
/// use tollgate::algorithm::Gcra;
/// use tollgate::{Cost, Limit, Limiter, Quota};
/// use tollgate_tower::extract::Global;
/// use tollgate_tower::{LimitRule, RateLimitLayer};
///
/// // Searches cost five units; a request that fails costs none.
/// let quota = Limit::new("searches", Gcra::new(Quota::per_minute(500))?)?;
/// let search = Cost::new(5)?;
/// let rule = LimitRule::new(quota, Global)
///     .cost(move |request| if request.uri.path() == "/search" { search } else { Cost::ONE })
///     .settle(|response| if response.status.is_server_error() { 0 } else { response.cost.get() });
/// let layer = RateLimitLayer::builder(Limiter::in_memory()).limit_rule(rule).build()?;
/// # Ok::<(), tollgate::Error>(())
/// ```
pub struct LimitRule {
    pub(crate) limit: Limit,
    extract: Box<dyn Extract>,
    cost: Option<Box<CostOf>>,
    settle: Option<Box<UnitsOf>>,
    pub(crate) settles_at_end: bool,
    slow_down: Option<SlowDown>,
    is_optional: bool,
}

impl LimitRule {
    /// Charges one unit per request to the subject that the extractor reads.
    pub fn new(limit: Limit, extract: impl Extract + 'static) -> Self {
        let extract = Box::new(extract);
        Self {
            limit,
            extract,
            cost: None,
            settle: None,
            settles_at_end: false,
            slow_down: None,
            is_optional: false,
        }
    }

    /// Sets the cost of a request.
    #[must_use]
    pub fn cost(
        mut self,
        cost: impl Fn(&RequestParts<'_>) -> Cost + Send + Sync + 'static,
    ) -> Self {
        self.cost = Some(Box::new(cost));
        self
    }

    /// Sets how many units a request used, once its response is known. Units that were charged and
    /// not used are refunded, as far as they are still counted. Units that were used beyond the
    /// cost are charged, into debt if it must be, as far as
    /// [`max_debt`](tollgate::Limit::max_debt) goes. A request that fails without a response keeps
    /// its charge.
    #[must_use]
    pub fn settle(
        mut self,
        used: impl Fn(&ResponseParts<'_>) -> u64 + Send + Sync + 'static,
    ) -> Self {
        self.settle = Some(Box::new(used));
        self.settles_at_end = false;
        self
    }

    /// Settles for the units that the service counts in the [`Usage`] of the request, when the body
    /// of the response has ended: also when the body fails, or the client disconnects in the
    /// middle, and then for what was counted so far. It replaces [`LimitRule::settle`].
    ///
    /// The cost is what is reserved before the work, an estimate. Units that were used beyond it
    /// are charged even into debt, so that later requests wait until the debt is worked off; the
    /// [`max_debt`](Limit::max_debt) of the limit bounds it. The end of the body does not wait for
    /// a remote store.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http::{Request, Response, StatusCode};
    /// use tollgate::{Cost, Limit, Limiter, Quota};
    /// use tollgate_tower::{LimitRule, RateLimitLayer, Usage, extract::Global};
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tokens = Limit::token_bucket("tokens", 1_000, Quota::per_minute(1_000))?;
    /// let estimate = Cost::new(500)?;
    /// let rule = LimitRule::new(tokens, Global).cost(move |_| estimate).settle_at_end();
    /// let service = ServiceBuilder::new()
    ///     .layer(RateLimitLayer::builder(Limiter::in_memory()).limit_rule(rule).build()?)
    ///     .service(service_fn(|request: Request<String>| async move {
    ///         let usage: Option<&Usage> = request.extensions().get();
    ///         usage.expect("the layer counts").add(1_900); // as often as tokens are known
    ///         Ok::<_, std::convert::Infallible>(Response::new(Bytes::from_static(b"tokens")))
    ///     }));
    /// let request = || Request::new(String::new());
    /// assert_eq!(service.clone().oneshot(request()).await?.status(), StatusCode::OK);
    /// // 900 tokens of debt: the next request waits until they are worked off.
    /// assert_eq!(service.oneshot(request()).await?.status(), StatusCode::TOO_MANY_REQUESTS);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn settle_at_end(mut self) -> Self {
        self.settle = None;
        self.settles_at_end = true;
        self
    }

    /// Counts only requests that failed, and refunds all others. For logins: each attempt is
    /// charged before its password is checked, so concurrent guesses cannot exceed the limit.
    #[must_use]
    pub fn count_only(
        self,
        failed: impl Fn(&ResponseParts<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.settle(move |response| if failed(response) { response.cost.get() } else { 0 })
    }

    /// Delays requests, the longer the more of the limit is spent.
    #[must_use]
    pub fn slow_down(mut self, slow_down: SlowDown) -> Self {
        self.slow_down = Some(slow_down);
        self
    }

    /// Does not apply this limit to requests without a subject. By default they are refused.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Changes the limit.
    pub(crate) fn map_limit(mut self, change: impl FnOnce(Limit) -> Limit) -> Self {
        self.limit = change(self.limit);
        self
    }

    /// Writes the subject of a request. False when this limit does not apply to it.
    pub(crate) fn subject(
        &self,
        request: &RequestParts<'_>,
        subject: &mut Subject,
    ) -> Result<bool, ExtractError> {
        match self.extract.extract(request, subject) {
            Ok(()) => Ok(true),
            Err(error) if self.is_optional && error.kind == ExtractErrorKind::Missing => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn cost_of(&self, request: &RequestParts<'_>) -> Cost {
        self.cost.as_ref().map_or(Cost::ONE, |cost| cost(request))
    }

    pub(crate) fn settles(&self) -> bool {
        self.settle.is_some() || self.settles_at_end
    }

    /// The units that a request used by its response; `None` when this limit does not settle by it.
    pub(crate) fn used(&self, response: &ResponseParts<'_>) -> Option<u64> {
        self.settle.as_ref().map(|settle| settle(response))
    }

    /// The delay of an allowed request.
    pub(crate) fn delay_ms(&self, decision: &Decision) -> u64 {
        self.slow_down.map_or(0, |slow| slow.delay_ms(decision))
    }
}

impl fmt::Debug for LimitRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rule = f.debug_struct("LimitRule");
        rule.field("limit", &self.limit).field("extract", &self.extract).finish_non_exhaustive()
    }
}

/// A charge before it is decided.
#[derive(Debug)]
pub(crate) struct PendingCharge {
    /// The index of the limit in its layer.
    pub(crate) index: usize,
    pub(crate) subject: Subject,
    pub(crate) cost: Cost,
}

/// A delay that grows with every unit that a key spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowDown {
    after: u64,
    step_ms: u64,
    max_ms: u64,
}

impl SlowDown {
    /// No delay for the first `after` units that a key has spent, then `step` more for each.
    #[must_use]
    pub fn after(after: u64, step: Duration) -> Self {
        Self { after, step_ms: whole_ms(step), max_ms: u64::MAX }
    }

    /// The longest delay. The `max_delay` of the layer bounds it too.
    #[must_use]
    pub fn at_most(mut self, max: Duration) -> Self {
        self.max_ms = whole_ms(max);
        self
    }

    fn delay_ms(self, decision: &Decision) -> u64 {
        if decision.degraded.is_some() {
            return 0;
        }
        let spent = decision.limit.saturating_sub(decision.remaining);
        spent.saturating_sub(self.after).saturating_mul(self.step_ms).min(self.max_ms)
    }
}

/// Whole milliseconds, rounded up.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}
