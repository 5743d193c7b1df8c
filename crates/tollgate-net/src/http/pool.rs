//! A connection pool: one request at a time on each connection.

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::LOCATION;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tollgate_core::store::{CallContext, CallLimit};
use tollgate_core::{Code, Error, Result};

use super::endpoint::{Endpoint, Message, Post};
use crate::tls::Tls;

/// The largest number of requests of a store at a time. Further ones wait ([`Pool::call_limit`]).
const CONNECTIONS_MAX: usize = 64;
/// Many load balancers drop a connection that is idle for longer, some of them without closing it.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Far above any expected response.
const RESPONSE_MAX: usize = 16 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// The connections of one client.
pub struct Pool {
    /// Absent if no endpoint is encrypted.
    tls: Option<Tls>,
    idle: Arc<Mutex<Vec<Idle>>>,
    call_limit: CallLimit,
    connect_timeout: Duration,
    reply_timeout: Duration,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The target of a redirect.
    pub location: Option<String>,
    /// The whole body.
    pub body: Vec<u8>,
}

type Sender = SendRequest<Full<Bytes>>;

struct Idle {
    endpoint: Endpoint,
    sender: Sender,
    since: Instant,
}

/// Why there is no response.
enum Failure {
    /// Nothing was sent. The request is returned.
    NotSent(Box<Message>),
    /// The request may have been sent.
    OutcomeUnknown(Error),
}

impl Pool {
    /// A pool without connections. Encrypted endpoints need `tls`. By default connecting may take
    /// 200 ms and a response 1 s.
    #[must_use]
    pub fn new(tls: Option<Tls>) -> Self {
        Self {
            tls,
            idle: Arc::default(),
            call_limit: CallLimit::new(CONNECTIONS_MAX),
            connect_timeout: CONNECT_TIMEOUT,
            reply_timeout: REPLY_TIMEOUT,
        }
    }

    /// How long connecting may take, with the TLS handshake.
    #[must_use]
    pub const fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long a response may take. A connection without one is closed.
    #[must_use]
    pub const fn reply_timeout(mut self, limit: Duration) -> Self {
        self.reply_timeout = limit;
        self
    }

    /// The bound on requests at a time. A store waits for a permit before it sends a request: the
    /// pool itself makes a connection for each request that finds none.
    pub const fn call_limit(&self) -> &CallLimit {
        &self.call_limit
    }

    /// Sends a request and waits for the response. Records in `cx` when the request is sent, which
    /// is after it has a connection.
    ///
    /// # Errors
    /// Marked as not sent if the request was certainly not sent.
    pub async fn post(
        &self,
        endpoint: &Endpoint,
        post: Post<'_>,
        cx: CallContext<'_>,
    ) -> Result<Response> {
        let mut message = Box::new(endpoint.message(post)?);
        while let Some(sender) = self.take(endpoint).await {
            cx.sent();
            match self.send(endpoint, sender, message).await {
                Ok(response) => return Ok(response),
                // The server had closed this connection: another one may still be open.
                Err(Failure::NotSent(returned)) => message = returned,
                Err(Failure::OutcomeUnknown(error)) => return Err(error),
            }
            cx.waiting();
        }
        let sender = self.dial(endpoint).await.map_err(Error::not_sent)?;
        cx.sent();
        match self.send(endpoint, sender, message).await {
            Ok(response) => Ok(response),
            Err(Failure::NotSent(_)) => Err(closed(endpoint).not_sent()),
            Err(Failure::OutcomeUnknown(error)) => Err(error),
        }
    }

    /// An idle connection that is still open.
    async fn take(&self, endpoint: &Endpoint) -> Option<Sender> {
        loop {
            let mut sender = self.pop(endpoint)?;
            // The server may have closed it since.
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    fn pop(&self, endpoint: &Endpoint) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        idle.retain(|idle| now.duration_since(idle.since) < IDLE_MAX && !idle.sender.is_closed());
        // The one used last, so that surplus connections become idle and are closed.
        let index = idle.iter().rposition(|idle| idle.endpoint.shares_connections(endpoint))?;
        Some(idle.remove(index).sender)
    }

    /// Closes all idle connections.
    pub fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Connects within the connect timeout. A separate task finishes the connection for the next
    /// request if this caller is cancelled: callers whose deadline is shorter than a connection
    /// takes would otherwise never get one.
    async fn dial(&self, endpoint: &Endpoint) -> Result<Sender> {
        let (sender, dialled) = oneshot::channel();
        let (tls, idle) = (self.tls.clone(), Arc::clone(&self.idle));
        let (endpoint, limit) = (endpoint.clone(), self.connect_timeout);
        drop(tokio::spawn(async move {
            let connected = timeout(limit, connect(tls, &endpoint)).await.unwrap_or_else(|_| {
                let limit = limit.as_millis();
                let message = format!("no connection to {endpoint} within {limit} ms");
                Err(Error::new(Code::StoreUnavailable, message))
            });
            if let Err(Ok(connection)) = sender.send(connected) {
                keep(&idle, endpoint, connection);
            }
        }));
        let ended = |_| Error::new(Code::StoreUnavailable, "the runtime was shut down");
        dialled.await.map_err(ended)?
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        mut sender: Sender,
        message: Box<Message>,
    ) -> core::result::Result<Response, Failure> {
        let exchange = async {
            let response = sender.try_send_request(*message).await.map_err(|mut error| {
                let returned =
                    error.take_message().map(|message| Failure::NotSent(Box::new(message)));
                returned.unwrap_or_else(|| Failure::OutcomeUnknown(closed(endpoint)))
            })?;
            read(response).await.ok_or_else(|| Failure::OutcomeUnknown(closed(endpoint)))
        };
        let Ok(response) = timeout(self.reply_timeout, exchange).await else {
            let limit = self.reply_timeout.as_millis();
            let message = format!("{endpoint} did not answer within {limit} ms");
            return Err(Failure::OutcomeUnknown(Error::new(Code::Timeout, message)));
        };
        let response = response?;
        keep(&self.idle, endpoint.clone(), sender);
        Ok(response)
    }
}

/// Returns a connection to the pool.
fn keep(idle: &Mutex<Vec<Idle>>, endpoint: Endpoint, sender: Sender) {
    let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.len() < CONNECTIONS_MAX {
        idle.push(Idle { endpoint, sender, since: Instant::now() });
    }
}

async fn connect(tls: Option<Tls>, endpoint: &Endpoint) -> Result<Sender> {
    let cannot = |error: &std::io::Error| {
        let kind = error.kind();
        Error::new(Code::StoreUnavailable, format!("cannot connect to {endpoint} ({kind})"))
    };
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
    let stream = stream.map_err(|error| cannot(&error))?;
    stream.set_nodelay(true).map_err(|error| cannot(&error))?;
    if !endpoint.is_encrypted {
        return start_http(stream, endpoint).await;
    }
    let tls =
        tls.ok_or_else(|| Error::config("ca", "is needed: no certificate authority is installed"))?;
    start_http(tls.encrypt(&endpoint.host, stream).await?, endpoint).await
}

/// The HTTP handshake, which sends nothing.
async fn start_http<S>(stream: S, endpoint: &Endpoint) -> Result<Sender>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|_| closed(endpoint))?;
    // Ends when the sender is dropped or the server closes the connection.
    drop(tokio::spawn(connection));
    Ok(sender)
}

/// Reads the whole response. `None` if it is truncated or too long.
async fn read(response: hyper::Response<Incoming>) -> Option<Response> {
    let status = response.status().as_u16();
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.map(str::to_owned);
    let body = Limited::new(response.into_body(), RESPONSE_MAX).collect().await.ok()?;
    Some(Response { status, location, body: body.to_bytes().into() })
}

fn closed(endpoint: &Endpoint) -> Error {
    let message = format!("the connection to {endpoint} was closed before the response");
    Error::new(Code::StoreUnavailable, message)
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("connect_timeout", &self.connect_timeout)
            .field("reply_timeout", &self.reply_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use core::future::{Future as _, poll_fn};
    use core::task::Poll;

    use super::*;

    #[test]
    fn a_connection_is_made_after_its_caller_is_cancelled() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (pool, endpoint) = (Pool::new(None), Endpoint::of(&url).unwrap());
        runtime.block_on(async {
            let post =
                Post { token: "t", content_type: "text/plain", headers: &[], body: "x".into() };
            let mut caller = Box::pin(pool.post(&endpoint, post, CallContext::at(0)));
            let polled = poll_fn(|context| Poll::Ready(caller.as_mut().poll(context))).await;
            assert!(polled.is_pending());
            drop(caller);
            let idle = || pool.idle.lock().unwrap().len();
            let kept = async {
                while idle() == 0 {
                    tokio::task::yield_now().await;
                }
            };
            timeout(Duration::from_secs(60), kept).await.expect("no connection is made");
            assert_eq!(idle(), 1);
        });
    }
}
