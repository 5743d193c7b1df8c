//! A client that respects limits against real servers: it waits as they state, or fails at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use tokio::sync::mpsc::UnboundedReceiver;
use tollgate::store::Memory;
use tollgate::{Clock, Limiter, ManualClock, Micros};
use tollgate_tower::RateLimitLayer;
use tollgate_tower::client::{NotSent, RespectLimitsLayer};
use tower::{Layer, ServiceExt};

use crate::support::{
    HttpClient, NOW, Server, Watched, client, hello, limiter, peer, per_minute, runtime, serve,
};

type RespectLimits = tollgate_tower::client::RespectLimits<HttpClient>;

/// Sends a request, and sets the clock to the end of each wait. Returns the status and the time.
async fn send(
    limited: &RespectLimits,
    server: &Server,
    (clock, waiting): (&ManualClock, &mut UnboundedReceiver<Micros>),
) -> (Result<u16, NotSent>, Micros) {
    let request = Request::get(server.uri("/")).body(Full::<Bytes>::default()).unwrap();
    let mut response = std::pin::pin!(limited.clone().oneshot(request));
    loop {
        tokio::select! {
            response = &mut response => {
                let status = response.map(|response| response.status().as_u16());
                let status = status.map_err(|error| *error.downcast::<NotSent>().unwrap());
                return (status, clock.now());
            }
            Some(until) = waiting.recv() => clock.set(until),
        }
    }
}

/// A client that follows only the headers of the server.
#[test]
fn a_client_that_waits_as_stated_is_admitted_at_the_first_attempt() {
    runtime().block_on(async {
        let (watched, clock, mut waiting) = Watched::new();
        let limiter = Limiter::with_clock(Memory::new(), clock.clone()).build();
        let server = hello(RateLimitLayer::new(limiter, per_minute("p", 2), peer()).unwrap()).await;
        let limited =
            RespectLimitsLayer::with_clock(watched).wait_at_most(Duration::from_secs(120));
        let limited = limited.jitter(0).unwrap().layer(client());
        let mut seen = Vec::new();
        for _ in 0..6 {
            let (status, at) = send(&limited, &server, (&clock, &mut waiting)).await;
            seen.push((status.unwrap(), (at - NOW) / 1_000_000));
        }
        // Two at once; then nothing is left for a minute, by the headers of an allowed response.
        assert_eq!(seen, [(200, 0), (200, 0), (200, 60), (200, 60), (200, 120), (200, 120)]);
    });
}

#[test]
fn waits_that_are_too_long_fail_at_once_and_nothing_is_sent() {
    runtime().block_on(async {
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let refuse = move || {
            count.fetch_add(1, Relaxed);
            async { (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "60")]).into_response() }
        };
        let server = serve(Router::new().route("/", get(refuse))).await;
        let other = serve(Router::new().route("/", get(|| async { "hello" }))).await;
        let (watched, clock, mut waiting) = Watched::new();
        let limited = RespectLimitsLayer::with_clock(watched).wait_at_most(Duration::from_secs(10));
        let limited = limited.layer(client());
        let at = (&clock, &mut waiting);
        assert_eq!(send(&limited, &server, (at.0, at.1)).await.0, Ok(503));
        for _ in 0..3 {
            let (not_sent, _) = send(&limited, &server, (at.0, &mut *at.1)).await;
            assert_eq!(not_sent.unwrap_err().retry_after, Some(Duration::from_secs(60)));
        }
        assert_eq!(send(&limited, &other, (at.0, &mut *at.1)).await.0, Ok(200), "another server");
        assert_eq!(received.load(Relaxed), 1);
        at.0.advance(Duration::from_secs(60));
        assert_eq!(send(&limited, &server, (at.0, &mut *at.1)).await.0, Ok(503));
        assert_eq!(received.load(Relaxed), 2);
    });
}

#[test]
fn jitter_extends_waits_and_never_shortens_them() {
    runtime().block_on(async {
        let refuse = || async { (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "100")]) };
        let server = serve(Router::new().route("/", get(refuse))).await;
        let mut waits = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let (watched, clock, mut waiting) = Watched::new();
            let limited =
                RespectLimitsLayer::with_clock(watched).wait_at_most(Duration::from_secs(200));
            let limited = limited.jitter(50).unwrap().layer(client());
            let at = (&clock, &mut waiting);
            assert_eq!(send(&limited, &server, (at.0, at.1)).await.0, Ok(429));
            let (status, now) = send(&limited, &server, (at.0, &mut *at.1)).await;
            assert_eq!(status, Ok(429));
            let waited = now - NOW;
            assert!((100_000_000..=150_000_000).contains(&waited), "{waited}");
            waits.insert(waited);
        }
        assert!(waits.len() > 10, "20 clients come back at {} different times", waits.len());
    });
}

#[test]
fn several_clients_share_one_quota() {
    runtime().block_on(async {
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let app = Router::new().route(
            "/",
            get(move || {
                count.fetch_add(1, Relaxed);
                async { "hello" }
            }),
        );
        let server = serve(app).await;
        let limiter = Arc::new(limiter().0);
        // Every node has its own layer; they share the limiter.
        let requests: Vec<_> = (0..40)
            .map(|_| {
                let limited = RespectLimitsLayer::with_clock(ManualClock::at(NOW))
                    .wait_at_most(Duration::ZERO)
                    .share(Arc::clone(&limiter), per_minute("third-party", 7))
                    .layer(client());
                let request = Request::get(server.uri("/")).body(Full::<Bytes>::default()).unwrap();
                tokio::spawn(async move { limited.oneshot(request).await.is_ok() })
            })
            .collect();
        let mut sent = 0;
        for request in requests {
            sent += u64::from(request.await.unwrap());
        }
        assert_eq!((sent, received.load(Relaxed)), (7, 7));
    });
}

#[test]
fn a_jitter_over_100_percent_is_refused() {
    assert_eq!(RespectLimitsLayer::new().jitter(101).unwrap_err().field(), Some("jitter"));
}
