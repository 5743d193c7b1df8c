//! What the tests share: servers on real sockets, a client, clocks.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::task::Waker;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tollgate::algorithm::Gcra;
use tollgate::clock::WaitHandle;
use tollgate::store::Memory;
use tollgate::{Clock, Limit, Limiter, ManualClock, Micros, Quota};
use tollgate_tower::extract::ClientIp;
use tollgate_tower::{Decide, RateLimitLayer};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::health_client::HealthClient;

/// Mid-November 2023, at the start of a second.
pub(crate) const NOW: Micros = 1_700_000_000_000_000;

/// The connected address, as axum provides it.
pub(crate) type Connected = ConnectInfo<SocketAddr>;

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A limiter in memory whose time stands still, and its clock.
pub(crate) fn limiter() -> (Limiter<Memory>, ManualClock) {
    let clock = ManualClock::at(NOW);
    (Limiter::with_clock(Memory::new(), clock.clone()).build(), clock)
}

pub(crate) fn per_minute(policy: &str, units: u64) -> Limit {
    Limit::new(policy, Gcra::new(Quota::per_minute(units)).unwrap()).unwrap()
}

pub(crate) fn peer() -> ClientIp {
    ClientIp::peer::<Connected>()
}

/// A service that answers `hello`, behind a layer.
pub(crate) async fn hello<D: Decide>(layer: RateLimitLayer<D>) -> Server {
    serve(Router::new().route("/", get(|| async { "hello" })).layer(layer)).await
}

/// Serves on a socket of its own until the test ends.
pub(crate) async fn serve(app: Router) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, service).into_future());
    Server::at(address)
}

/// A client over real connections.
pub(crate) type HttpClient = Client<HttpConnector, Full<Bytes>>;

pub(crate) fn client() -> HttpClient {
    Client::builder(TokioExecutor::new()).build_http()
}

/// A server, and a client of it.
#[derive(Clone)]
pub(crate) struct Server {
    address: SocketAddr,
    client: HttpClient,
}

impl Server {
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { address, client: client() }
    }

    pub(crate) fn uri(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn get(&self, path: &str) -> Response<Bytes> {
        self.get_with(path, &[]).await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
        let mut request = Request::get(self.uri(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.request(request.body(Full::default()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
    }

    /// The status of each of several requests in a row.
    pub(crate) async fn statuses(&self, path: &str, times: usize) -> Vec<u16> {
        let mut statuses = Vec::new();
        for _ in 0..times {
            statuses.push(self.get(path).await.status().as_u16());
        }
        statuses
    }
}

pub(crate) fn header<'a, B>(response: &'a Response<B>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

pub(crate) fn json(response: &Response<Bytes>) -> serde_json::Value {
    serde_json::from_slice(response.body()).unwrap()
}

/// A client of the health service, over a channel of tonic's.
pub(crate) async fn connected(address: SocketAddr) -> HealthClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

/// A clock that stands still, and reports each wait on it.
#[derive(Debug)]
pub(crate) struct Watched {
    clock: ManualClock,
    waits: UnboundedSender<Micros>,
}

impl Watched {
    /// The clock, a handle that sets it, and the end of each wait on it.
    pub(crate) fn new() -> (Self, ManualClock, UnboundedReceiver<Micros>) {
        let clock = ManualClock::at(NOW);
        let (waits, waiting) = unbounded_channel();
        (Self { clock: clock.clone(), waits }, clock, waiting)
    }
}

impl Clock for Watched {
    fn now(&self) -> Micros {
        self.clock.now()
    }

    fn wake_at(&self, at: Micros, waker: &Waker) -> WaitHandle {
        let handle = self.clock.wake_at(at, waker);
        let _ = self.waits.send(at);
        handle
    }
}
