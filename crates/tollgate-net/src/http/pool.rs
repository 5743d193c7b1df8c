//! Connections that are kept: one request at a time on each, and as many as there are requests.

use core::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::LOCATION;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout};
use tollgate_core::{Code, Error, Result};

use super::endpoint::{Endpoint, Message, Post};
use crate::tls::Tls;

/// More than so many requests at a time wait for each other.
const CONNECTIONS_MAX: usize = 64;
/// Load balancers close what is idle for longer, and not all of them say so.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Far more than any reply that is expected.
const RESPONSE_MAX: usize = 16 << 20;
/// Until told otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// The connections of a client.
pub struct Pool {
    /// Present if any URL may be encrypted.
    tls: Option<Tls>,
    idle: Arc<Mutex<Vec<Idle>>>,
    permits: Semaphore,
    /// Responses so far.
    answered: AtomicU64,
    connect_timeout: Duration,
    reply_timeout: Duration,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status, such as 200.
    pub status: u16,
    /// Where it redirects to.
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
    /// Nothing got out: the message is back.
    Back(Box<Message>),
    /// It may have got out.
    Lost(Error),
}

impl Pool {
    /// Without connections yet. Without `tls` there are none to encrypted endpoints. Connecting may
    /// take 200 ms, a response 1 s.
    #[must_use]
    pub fn new(tls: Option<Tls>) -> Self {
        Self {
            tls,
            idle: Arc::default(),
            permits: Semaphore::new(CONNECTIONS_MAX),
            answered: AtomicU64::new(0),
            connect_timeout: CONNECT_TIMEOUT,
            reply_timeout: REPLY_TIMEOUT,
        }
    }

    /// How long it may take to connect, TLS included.
    #[must_use]
    pub const fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long a response may take. One that takes longer costs its connection.
    #[must_use]
    pub const fn reply_timeout(mut self, limit: Duration) -> Self {
        self.reply_timeout = limit;
        self
    }

    /// Sends a request and waits for the response.
    ///
    /// # Errors
    /// Marked as unsent if the request certainly did not get out.
    pub async fn post(&self, endpoint: &Endpoint, post: Post<'_>) -> Result<Response> {
        let message = Box::new(endpoint.message(post)?);
        if let Ok(_permit) = self.permits.try_acquire() {
            return self.exchange(endpoint, message).await;
        }
        let before = self.answered.load(Relaxed);
        let permit = timeout(self.reply_timeout, self.permits.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            let others_served = self.answered.load(Relaxed) != before;
            return Err(no_connection(others_served).not_sent());
        };
        self.exchange(endpoint, message).await
    }

    async fn exchange(&self, endpoint: &Endpoint, mut message: Box<Message>) -> Result<Response> {
        while let Some(sender) = self.take(endpoint).await {
            match self.send(endpoint, sender, message).await {
                Ok(response) => return Ok(response),
                // The other side closed it at this very moment: the next may stand.
                Err(Failure::Back(back)) => message = back,
                Err(Failure::Lost(error)) => return Err(error),
            }
        }
        let sender = self.dial(endpoint).await.map_err(Error::not_sent)?;
        match self.send(endpoint, sender, message).await {
            Ok(response) => Ok(response),
            Err(Failure::Back(_)) => Err(closed(endpoint).not_sent()),
            Err(Failure::Lost(error)) => Err(error),
        }
    }

    /// A connection that is kept and stands.
    async fn take(&self, endpoint: &Endpoint) -> Option<Sender> {
        loop {
            let mut sender = self.pop(endpoint)?;
            // The other side may have closed it meanwhile.
            if sender.ready().await.is_ok() {
                return Some(sender);
            }
        }
    }

    fn pop(&self, endpoint: &Endpoint) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        idle.retain(|idle| now.duration_since(idle.since) < IDLE_MAX && !idle.sender.is_closed());
        // The last one: what is needed rarely grows old and is closed.
        let at = idle.iter().rposition(|idle| idle.endpoint.is_at(endpoint))?;
        Some(idle.remove(at).sender)
    }

    /// Closes all connections that nobody uses now.
    pub fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Connects; everything together takes at most the connect timeout. It goes on when the caller goes
    /// away, for the next one: whoever has less time than a connection takes would never get one.
    async fn dial(&self, endpoint: &Endpoint) -> Result<Sender> {
        let (hand, handed) = oneshot::channel();
        let (tls, idle) = (self.tls.clone(), Arc::clone(&self.idle));
        let (endpoint, limit) = (endpoint.clone(), self.connect_timeout);
        drop(tokio::spawn(async move {
            let dialed = timeout(limit, connect(tls, &endpoint)).await.unwrap_or_else(|_| {
                let limit = limit.as_millis();
                let message = format!("no connection to {endpoint} within {limit} ms");
                Err(Error::new(Code::StoreUnavailable, message))
            });
            if let Err(Ok(sender)) = hand.send(dialed) {
                keep(&idle, endpoint, sender);
            }
        }));
        let ended = |_| Error::new(Code::StoreUnavailable, "the runtime of the connection ended");
        handed.await.map_err(ended)?
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        mut sender: Sender,
        message: Box<Message>,
    ) -> core::result::Result<Response, Failure> {
        let exchange = async {
            let response = sender.try_send_request(*message).await.map_err(|mut error| {
                let back = error.take_message().map(|message| Failure::Back(Box::new(message)));
                back.unwrap_or_else(|| Failure::Lost(closed(endpoint)))
            })?;
            read(response).await.ok_or_else(|| Failure::Lost(closed(endpoint)))
        };
        let Ok(response) = timeout(self.reply_timeout, exchange).await else {
            let limit = self.reply_timeout.as_millis();
            let message = format!("{endpoint} did not answer within {limit} ms");
            return Err(Failure::Lost(Error::new(Code::Timeout, message)));
        };
        let response = response?;
        self.answered.fetch_add(1, Relaxed);
        keep(&self.idle, endpoint.clone(), sender);
        Ok(response)
    }
}

/// Keeps a connection for the next request.
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
        return greet(stream, endpoint).await;
    }
    let tls = tls.ok_or_else(|| {
        Error::config("ca", "is needed: this machine trusts no certificate authority")
    })?;
    greet(tls.encrypt(&endpoint.host, stream).await?, endpoint).await
}

/// Begins to speak HTTP.
async fn greet<S>(stream: S, endpoint: &Endpoint) -> Result<Sender>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|_| closed(endpoint))?;
    // Ends with the sender, or when the other side closes.
    drop(tokio::spawn(connection));
    Ok(sender)
}

/// The whole response, unless it ends early or never.
async fn read(response: hyper::Response<Incoming>) -> Option<Response> {
    let status = response.status().as_u16();
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.map(str::to_owned);
    let body = Limited::new(response.into_body(), RESPONSE_MAX).collect().await.ok()?;
    Some(Response { status, location, body: body.to_bytes().into() })
}

/// All connections were in use until the reply timeout.
fn no_connection(others_served: bool) -> Error {
    if others_served {
        let message = format!("more than {CONNECTIONS_MAX} requests are under way");
        Error::new(Code::QueueFull, message)
    } else {
        let message = format!("{CONNECTIONS_MAX} requests are under way and none has ended");
        Error::new(Code::Timeout, message)
    }
}

fn closed(endpoint: &Endpoint) -> Error {
    let message = format!("the connection to {endpoint} was closed before an answer came");
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
    fn a_connection_is_made_although_whoever_wanted_it_has_gone() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (pool, endpoint) = (Pool::new(None), Endpoint::of(&url).unwrap());
        runtime.block_on(async {
            let post =
                Post { token: "t", content_type: "text/plain", headers: &[], body: "x".into() };
            let mut leaving = Box::pin(pool.post(&endpoint, post));
            let polled = poll_fn(|context| Poll::Ready(leaving.as_mut().poll(context))).await;
            assert!(polled.is_pending());
            drop(leaving);
            let idle = || pool.idle.lock().unwrap().len();
            let kept = async {
                while idle() == 0 {
                    tokio::task::yield_now().await;
                }
            };
            timeout(Duration::from_secs(60), kept).await.expect("nobody connects any more");
            assert_eq!(idle(), 1);
        });
    }
}
