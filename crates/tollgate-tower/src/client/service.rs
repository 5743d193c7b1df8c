//! A client that respects limits.

use core::fmt;
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::error::Error as StdError;
use std::sync::Arc;

use http::{Request, Response, Uri};
use tollgate::authoring::BoxFuture;
use tollgate::clock::sleep_until;
use tollgate::{Clock, Decision, Limit, Micros};
use tollgate_http::Reset;
use tollgate_http::rate_limit_hints::not_before;
use tower_service::Service;

use super::cooldowns::{Cooldowns, RandomShare};
use crate::decide::Decide;

/// An error of the inner service, or [`NotSent`].
type BoxError = Box<dyn StdError + Send + Sync>;

/// The response to a request. Dropping it while it waits sends nothing.
pub type RespectLimitsFuture<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// Longer cooldowns are cut to a day: a server that states one is mistaken, or hostile.
const COOLDOWN_MAX: Duration = Duration::from_secs(86_400);

/// A request that was not sent, because it would have been too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotSent {
    /// The wait until the request may be sent; absent when waiting is useless.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after {
            Some(wait) => write!(f, "not sent: too early by {} ms", wait.as_millis()),
            None => f.write_str("not sent: the quota can never grant it"),
        }
    }
}

impl StdError for NotSent {}

/// Charges requests to a shared quota.
pub(super) trait SharedQuota: Send + Sync {
    /// Charges one request to a server.
    fn charge<'a>(&'a self, server: &'a str) -> BoxFuture<'a, tollgate::Result<Decision>>;
}

/// A limiter, and the limit with the numbers of the quota.
pub(super) struct LimiterQuota<D> {
    pub(super) decider: D,
    pub(super) limit: Limit,
}

impl<D: Decide> SharedQuota for LimiterQuota<D> {
    fn charge<'a>(&'a self, server: &'a str) -> BoxFuture<'a, tollgate::Result<Decision>> {
        Box::pin(async move { self.decider.decide(&[self.limit.charge(server)]).await })
    }
}

impl fmt::Debug for dyn SharedQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedQuota")
    }
}

/// The settings of a layer, and the cooldowns that its clients share.
#[derive(Clone, Debug)]
pub(super) struct ClientState {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) cooldowns: Arc<Cooldowns>,
    pub(super) jitter: Arc<RandomShare>,
    pub(super) wait_at_most: Duration,
    pub(super) x_reset: Option<Reset>,
    pub(super) shared: Option<Arc<dyn SharedQuota>>,
}

impl ClientState {
    /// Waits until a request to this server may be sent.
    async fn wait_for(&self, server: &str) -> Result<(), BoxError> {
        let deadline = self.clock.now().saturating_add(micros(self.wait_at_most));
        // Another response may extend the cooldown during the wait.
        loop {
            let (now, until) = (self.clock.now(), self.cooldowns.until(server));
            if until <= now {
                break;
            }
            self.sleep(until - now, deadline).await?;
        }
        let Some(shared) = &self.shared else { return Ok(()) };
        loop {
            let decision = shared.charge(server).await?;
            if decision.is_allowed() {
                let at = self.clock.now().saturating_add(decision.delay_ms.saturating_mul(1_000));
                sleep_until(&*self.clock, at).await;
                return Ok(());
            }
            let wait = decision.retry_after().ok_or(NotSent { retry_after: None })?;
            self.sleep(micros(wait), deadline).await?;
        }
    }

    /// Sleeps with jitter; fails at once if that would end after the deadline.
    async fn sleep(&self, wait: Micros, deadline: Micros) -> Result<(), NotSent> {
        let until = self.clock.now().saturating_add(self.jitter.add_to(wait));
        if until > deadline {
            return Err(NotSent { retry_after: Some(Duration::from_micros(wait)) });
        }
        sleep_until(&*self.clock, until).await;
        Ok(())
    }

    /// Starts a cooldown if the response states one.
    fn record<B>(&self, server: &str, response: &Response<B>) {
        let now = self.clock.now();
        if let Some(until) = not_before(response.status(), response.headers(), now, self.x_reset) {
            let latest = now.saturating_add(micros(COOLDOWN_MAX));
            self.cooldowns.extend(server, until.min(latest), now);
        }
    }
}

/// A client that respects the limits that servers state.
#[derive(Clone, Debug)]
pub struct RespectLimits<S> {
    inner: S,
    state: ClientState,
}

impl<S> RespectLimits<S> {
    pub(super) const fn new(inner: S, state: ClientState) -> Self {
        Self { inner, state }
    }
}

impl<S, Q, R> Service<Request<Q>> for RespectLimits<S>
where
    S: Service<Request<Q>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    Q: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = RespectLimitsFuture<Response<R>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        // The service that was polled ready is called; a fresh clone takes its place.
        let clone = self.inner.clone();
        let mut ready = mem::replace(&mut self.inner, clone);
        let state = self.state.clone();
        Box::pin(async move {
            let server = server_of(request.uri());
            state.wait_for(&server).await?;
            let response = ready.call(request).await.map_err(Into::into)?;
            state.record(&server, &response);
            Ok(response)
        })
    }
}

/// The host and port, which limits are kept for.
fn server_of(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
