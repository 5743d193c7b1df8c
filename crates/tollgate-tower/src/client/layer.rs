//! The layer of a client that respects limits.

use core::time::Duration;
use std::sync::Arc;

use tollgate::{Clock, Error, Limit, Result, SystemClock};
use tollgate_http::Reset;
use tower_layer::Layer;

use super::cooldowns::{Cooldowns, RandomShare};
use super::service::{ClientState, LimiterQuota, RespectLimits};
use crate::decide::Decide;

const WAIT_AT_MOST: Duration = Duration::from_secs(30);
const JITTER_PERCENT: u8 = 10;

/// Makes a client respect the limits that servers state in their responses. Clones share the state.
///
/// A request that is too early waits, with jitter, or fails at once if it would wait for too long.
/// The layer repeats no request: combine it with a retry layer outside of it.
///
/// ```
/// use std::time::Duration;
///
/// use http::{Request, Response};
/// use tollgate_tower::client::{NotSent, RespectLimitsLayer};
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let server = service_fn(async |_: Request<()>| {
///     let refused = Response::builder().status(429).header("retry-after", "60");
///     refused.body(()).map_err(|error| error.to_string())
/// });
/// let mut client = RespectLimitsLayer::new().wait_at_most(Duration::ZERO).layer(server);
///
/// let first = client.ready().await?.call(Request::new(())).await?;
/// assert_eq!(first.status(), 429);
/// // `Retry-After` is a minute: the next request is not sent.
/// let second = client.ready().await?.call(Request::new(())).await;
/// assert!(second.unwrap_err().is::<NotSent>());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct RespectLimitsLayer {
    state: ClientState,
}

impl RespectLimitsLayer {
    /// Waits up to 30 seconds, with a jitter of 10 percent.
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }

    /// The same with another clock.
    pub fn with_clock(clock: impl Clock + 'static) -> Self {
        let state = ClientState {
            clock: Arc::new(clock),
            cooldowns: Arc::new(Cooldowns::default()),
            jitter: Arc::new(RandomShare::new(JITTER_PERCENT)),
            wait_at_most: WAIT_AT_MOST,
            x_reset: None,
            shared: None,
        };
        Self { state }
    }

    /// The longest wait of a request, with its jitter; zero fails at once.
    pub fn wait_at_most(mut self, wait: Duration) -> Self {
        self.state.wait_at_most = wait;
        self
    }

    /// The most that jitter adds to a wait, in percent.
    ///
    /// # Errors
    /// `config_invalid` with the field `jitter` when it is over 100.
    pub fn jitter(mut self, percent: u8) -> Result<Self> {
        if percent > 100 {
            let message = format!("{percent} is out of range; accepted: 0 to 100");
            return Err(Error::config("jitter", message));
        }
        self.state.jitter = Arc::new(RandomShare::new(percent));
        Ok(self)
    }

    /// The meaning of `X-RateLimit-Reset`, for known servers. Otherwise large numbers are read as
    /// instants and small ones as delays.
    pub fn x_reset(mut self, meaning: Reset) -> Self {
        self.state.x_reset = Some(meaning);
        self
    }

    /// Charges every request to a quota that several clients share through a limiter: one unit,
    /// with the host and port of the server as the subject.
    pub fn share(mut self, decider: impl Decide, limit: Limit) -> Self {
        self.state.shared = Some(Arc::new(LimiterQuota { decider, limit }));
        self
    }
}

impl Default for RespectLimitsLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for RespectLimitsLayer {
    type Service = RespectLimits<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RespectLimits::new(inner, self.state.clone())
    }
}
