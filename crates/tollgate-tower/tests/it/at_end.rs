//! Costs that are known only when the body of a response has ended: settled then, once, however the
//! body ends.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};

use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate::store::{Memory, Store};
use tollgate::{
    Charge, Clock, Cost, Decision, Limit, Limiter, ManualClock, Quota, Receipt, Result,
};
use tollgate_testkit::ReferenceStore;
use tollgate_tower::extract::Global;
use tollgate_tower::{Decide, LimitRule, RateLimitLayer, Usage};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{NOW, limiter, runtime, serve};

const ESTIMATE: u64 = 30;

fn tokens() -> Limit {
    Limit::sliding_log("tokens", Quota::per_day(100)).unwrap()
}

/// Reserves the estimate, and settles at the end.
fn rule() -> LimitRule {
    LimitRule::new(tokens(), Global).cost(|_| Cost::new(ESTIMATE).unwrap()).settle_at_end()
}

/// A limiter that counts how often it settles.
struct Counting<S> {
    limiter: Limiter<S>,
    settled: AtomicU64,
    /// Whether to settle takes more than one poll, as over a remote store.
    waits: bool,
}

impl<S: Store> Counting<S> {
    fn over(store: S, waits: bool) -> Arc<Self> {
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        Arc::new(Self { limiter, settled: AtomicU64::new(0), waits })
    }

    async fn left(&self) -> u64 {
        self.limiter.forecast(tokens().charge("all")).await.unwrap().spendable_now
    }

    fn settled(&self) -> u64 {
        self.settled.load(Relaxed)
    }

    /// Waits for a settlement that goes on after the body.
    async fn settles(&self, times: u64) {
        while self.settled() < times {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(self.settled(), times);
    }
}

impl<S: Store + Send + Sync + 'static> Decide for Counting<S> {
    fn decide_now(&self, charge: Charge<'_>) -> Option<Result<Decision>> {
        self.limiter.decide_now(charge)
    }

    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Decision> {
        self.limiter.decide(charges).await
    }

    async fn settle(&self, charge: Charge<'_>, receipt: Receipt, to: u64) -> Result<()> {
        if self.waits {
            tokio::task::yield_now().await;
        }
        let done = Decide::settle(&self.limiter, charge, receipt, to).await;
        self.settled.fetch_add(1, Relaxed);
        done
    }

    fn clock(&self) -> &dyn Clock {
        Decide::clock(&self.limiter)
    }
}

/// What a body does next.
enum Step {
    /// Counts units, and sends some bytes.
    Send(u64),
    Trailers,
    Fail,
    /// Sends for ever, and counts nothing.
    Repeat,
    /// Waits for ever.
    Wait,
}

type MakeSteps = fn() -> Vec<Step>;

/// A body that does these steps, the first one last, and reports when it is dropped.
struct Steps(Vec<Step>, Usage, Option<Sender<()>>);

impl Steps {
    fn of(mut steps: Vec<Step>, usage: &Usage) -> Self {
        steps.reverse();
        Self(steps, usage.clone(), None)
    }
}

impl HttpBody for Steps {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let next = match self.0.pop() {
            None => None,
            Some(Step::Send(units)) => {
                self.1.add(units);
                Some(Ok(Frame::data(Bytes::from(vec![b'x'; 4096]))))
            }
            Some(Step::Repeat) => {
                self.0.push(Step::Repeat);
                Some(Ok(Frame::data(Bytes::from(vec![b'x'; 4096]))))
            }
            Some(Step::Trailers) => {
                let tag = (http::header::ETAG, "t".parse().unwrap());
                Some(Ok(Frame::trailers(HeaderMap::from_iter([tag]))))
            }
            Some(Step::Fail) => Some(Err(std::io::Error::other("the model failed"))),
            Some(Step::Wait) => {
                self.0.push(Step::Wait);
                return Poll::Pending;
            }
        };
        Poll::Ready(next)
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some(dropped) = self.2.take() {
            let _test_is_over = dropped.send(());
        }
    }
}

/// The response of a service behind a layer, whose body does these steps.
async fn response<S: Store + Send + Sync + 'static>(
    decider: &Arc<Counting<S>>,
    steps: impl FnOnce() -> Vec<Step> + Clone,
) -> Response<Body> {
    let layer = RateLimitLayer::builder(Arc::clone(decider)).limit_rule(rule()).build().unwrap();
    let service = layer.layer(service_fn(move |request: Request<()>| {
        let usage: Usage = request.extensions().get::<Usage>().unwrap().clone();
        let body = Body::new(Steps::of((steps.clone())(), &usage));
        async move { Ok::<_, Infallible>(Response::new(body)) }
    }));
    service.oneshot(Request::new(())).await.unwrap()
}

async fn ends_in_every_way<S: Store + Send + Sync + 'static>(open: fn() -> S, waits: bool) {
    // A whole stream, with trailers: below the estimate, above it, and into debt.
    for (units, left) in [(7, 93), (70, 30), (150, 0)] {
        let decider = Counting::over(open(), waits);
        let response =
            response(&decider, move || vec![Step::Send(units - 2), Step::Send(2), Step::Trailers])
                .await;
        assert_eq!(decider.left().await, 100 - ESTIMATE, "reserved until the end");
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["etag"], "t");
        assert_eq!(body.to_bytes().len(), 8192);
        decider.settles(1).await;
        assert_eq!(decider.left().await, left);
    }
    // An error in the middle, and a body that is dropped in the middle or before its first frame.
    let fails = || vec![Step::Send(4), Step::Fail, Step::Send(50)];
    let stops = || vec![Step::Send(4), Step::Wait];
    let cases: [(MakeSteps, usize, u64); 3] = [(fails, 3, 96), (stops, 1, 96), (stops, 0, 70)];
    for (steps, frames, left) in cases {
        let decider = Counting::over(open(), waits);
        let mut body = response(&decider, steps).await.into_body();
        for _ in 0..frames {
            let _frame = body.frame().await;
        }
        drop(body);
        // Nothing was known of the last one: it keeps its charge.
        decider.settles(u64::from(left != 70)).await;
        assert_eq!(decider.left().await, left);
    }
}

#[test]
fn a_body_is_settled_once_however_it_ends() {
    runtime().block_on(async {
        ends_in_every_way(Memory::new, false).await;
        ends_in_every_way(ReferenceStore::new, true).await;
    });
}

#[test]
fn a_request_that_is_dropped_before_its_response_is_settled() {
    runtime().block_on(async {
        for (reported, settled, left) in [(Some(12), 1, 88), (None, 0, 70)] {
            let decider = Counting::over(Memory::new(), false);
            let layer =
                RateLimitLayer::builder(Arc::clone(&decider)).limit_rule(rule()).build().unwrap();
            let service = layer.layer(service_fn(move |request: Request<()>| {
                if let Some(units) = reported {
                    request.extensions().get::<Usage>().unwrap().add(units);
                }
                core::future::pending::<Result<Response<Body>, Infallible>>()
            }));
            let mut never = Box::pin(service.oneshot(Request::new(())));
            let polled = never.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            drop(never);
            assert_eq!((decider.settled(), decider.left().await), (settled, left));
        }
    });
}

#[test]
fn a_service_that_fails_is_settled_for_what_it_used() {
    runtime().block_on(async {
        let decider = Counting::over(Memory::new(), false);
        let layer =
            RateLimitLayer::builder(Arc::clone(&decider)).limit_rule(rule()).build().unwrap();
        let service = layer.layer(service_fn(|request: Request<()>| {
            request.extensions().get::<Usage>().unwrap().set(1);
            async { Err::<Response<Body>, _>(std::io::Error::other("no")) }
        }));
        assert!(service.oneshot(Request::new(())).await.is_err());
        assert_eq!((decider.settled(), decider.left().await), (1, 99));
    });
}

/// A real client closes its connection in the middle of an endless answer.
#[test]
fn a_client_that_disconnects_is_settled_for_what_was_used_so_far() {
    runtime().block_on(async {
        let decider = Counting::over(ReferenceStore::new(), true);
        let layer =
            RateLimitLayer::builder(Arc::clone(&decider)).limit_rule(rule()).build().unwrap();
        let (dropped, is_dropped) = channel();
        let answer = move |Extension(usage): Extension<Usage>| async move {
            let mut body = Steps::of(vec![Step::Repeat], &usage);
            usage.add(2);
            body.2 = Some(dropped);
            Body::new(body)
        };
        let server = serve(Router::new().route("/", get(answer)).layer(layer)).await;
        let address = server.uri("").replace("http://", "");
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut begun = [0; 64];
        client.read_exact(&mut begun).await.unwrap();
        assert!(begun.starts_with(b"HTTP/1.1 200"));
        assert_eq!((decider.settled(), decider.left().await), (0, 70));
        drop(client);
        tokio::task::spawn_blocking(move || is_dropped.recv().unwrap()).await.unwrap();
        decider.settles(1).await;
        assert_eq!(decider.left().await, 98);
    });
}

/// Every request has a count, also those that no limit charges, and layers share it.
#[test]
fn every_request_has_a_count_and_layers_share_it() {
    runtime().block_on(async {
        let (outer, inner) =
            (Counting::over(Memory::new(), false), Counting::over(Memory::new(), false));
        let layer = |decider: &Arc<Counting<Memory>>| {
            RateLimitLayer::builder(Arc::clone(decider))
                .limit_rule(rule())
                .skip(|request| request.uri.path() == "/free")
                .build()
                .unwrap()
        };
        let service = service_fn(|request: Request<()>| async move {
            request.extensions().get::<Usage>().unwrap().add(9);
            Ok::<_, Infallible>(Response::new(Bytes::new()))
        });
        let service = layer(&outer).layer(layer(&inner).layer(service));
        for (path, left) in [("/free", 100), ("/", 91)] {
            let request = Request::get(path).body(()).unwrap();
            let response = service.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            assert_eq!((outer.left().await, inner.left().await), (left, left), "{path}");
        }
    });
}

/// Of two limits of a layer, one is settled by the response and the other one at the end.
#[test]
fn each_limit_is_settled_in_its_own_way() {
    runtime().block_on(async {
        let limiter = Arc::new(limiter().0);
        let requests = || Limit::sliding_log("requests", Quota::per_day(10)).unwrap();
        let failures = LimitRule::new(requests(), Global)
            .count_only(|response| response.status.is_server_error());
        let layer = RateLimitLayer::builder(Arc::clone(&limiter));
        let layer = layer.limit_rule(failures).limit_rule(rule()).build().unwrap();
        let service = layer.layer(service_fn(|request: Request<()>| async move {
            request.extensions().get::<Usage>().unwrap().add(40);
            Ok::<_, Infallible>(Response::new(Bytes::new()))
        }));
        service.oneshot(Request::new(())).await.unwrap();
        let left =
            |limit: Limit| limiter.sync().forecast(limit.charge("all")).unwrap().spendable_now;
        assert_eq!((left(requests()), left(tokens())), (10, 60));
    });
}
