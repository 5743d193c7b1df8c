//! A client that waits its turn.

use core::fmt;
use core::mem;
use core::task::{Context, Poll};
use core::time::Duration;
use std::error::Error as StdError;
use std::sync::Arc;

use http::{Request, Response, Uri};
use tollgate::clock::sleep_until;
use tollgate::{Clock, Micros};
use tollgate_http::Reset;
use tollgate_http::rate_limit_hints::not_before;
use tower_service::Service;

use super::future::PoliteFuture;
use super::pace::{Jitter, Pace};
use super::shared::Ask;

/// What a client may fail with: what its service fails with, or that it did not send the request.
type BoxError = Box<dyn StdError + Send + Sync>;

/// Longer waits are cut to a day: a server that states one is mistaken, or hostile.
const BELIEVED: Duration = Duration::from_secs(86_400);

/// A request that was not sent, because it would have been too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Postponed {
    /// How long to wait; absent when waiting is useless.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Postponed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after {
            Some(wait) => write!(f, "not sent: too early by {} ms", wait.as_millis()),
            None => f.write_str("not sent: the quota can never grant it"),
        }
    }
}

impl StdError for Postponed {}

/// How a client behaves.
#[derive(Clone, Debug)]
pub(super) struct Manners {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) pace: Arc<Pace>,
    pub(super) jitter: Arc<Jitter>,
    pub(super) wait_at_most: Duration,
    pub(super) x_reset: Option<Reset>,
    pub(super) shared: Option<Arc<dyn Ask>>,
}

impl Manners {
    /// Returns when a request to this server may be sent.
    async fn turn(&self, server: &str) -> Result<(), BoxError> {
        let patience = u64::try_from(self.wait_at_most.as_micros()).unwrap_or(u64::MAX);
        let give_up = self.clock.now().saturating_add(patience);
        // Somebody else may be told to wait longer while this one waits.
        loop {
            let (now, until) = (self.clock.now(), self.pace.not_before(server));
            if until <= now {
                break;
            }
            self.wait(until - now, give_up).await?;
        }
        let Some(shared) = &self.shared else { return Ok(()) };
        loop {
            let decision = shared.ask(server).await?;
            if decision.is_allowed() {
                let turn = self.clock.now().saturating_add(decision.delay_ms.saturating_mul(1_000));
                sleep_until(&*self.clock, turn).await;
                return Ok(());
            }
            let wait = decision.retry_after().ok_or(Postponed { retry_after: None })?;
            self.wait(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX), give_up).await?;
        }
    }

    /// Waits, a little longer than told; fails at once if that would end too late.
    async fn wait(&self, wait: Micros, give_up: Micros) -> Result<(), Postponed> {
        let until = self.clock.now().saturating_add(self.jitter.stretched(wait));
        if until > give_up {
            return Err(Postponed { retry_after: Some(Duration::from_micros(wait)) });
        }
        sleep_until(&*self.clock, until).await;
        Ok(())
    }

    fn learn<B>(&self, server: &str, response: &Response<B>) {
        let now = self.clock.now();
        let told = not_before(response.status(), response.headers(), now, self.x_reset);
        if let Some(until) = told {
            let believed = u64::try_from(BELIEVED.as_micros()).unwrap_or(u64::MAX);
            self.pace.hold(server, until.min(now.saturating_add(believed)), now);
        }
    }
}

/// A client that keeps to what servers say about their limits.
#[derive(Clone, Debug)]
pub struct Polite<S> {
    inner: S,
    manners: Manners,
}

impl<S> Polite<S> {
    pub(super) const fn new(inner: S, manners: Manners) -> Self {
        Self { inner, manners }
    }
}

impl<S, Q, R> Service<Request<Q>> for Polite<S>
where
    S: Service<Request<Q>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    Q: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = PoliteFuture<Response<R>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let clone = self.inner.clone();
        let mut ready = mem::replace(&mut self.inner, clone);
        let manners = self.manners.clone();
        PoliteFuture::new(async move {
            let server = server_of(request.uri());
            manners.turn(&server).await?;
            let response = ready.call(request).await.map_err(Into::into)?;
            manners.learn(&server, &response);
            Ok(response)
        })
    }
}

/// Limits are kept per host and port.
fn server_of(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}
