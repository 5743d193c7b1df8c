//! Skipped requests, shadow mode, and layers that cannot be built.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get;
use tollgate_tower::{Event, RateLimitLayer};

use crate::support::{header, hello, limiter, peer, per_minute, runtime, serve};

#[test]
fn health_checks_and_allowed_networks_are_never_charged() {
    runtime().block_on(async {
        let layer = RateLimitLayer::builder(limiter().0)
            .limit(per_minute("p", 1), peer())
            .skip(|request| request.uri.path() == "/healthz")
            .build();
        let app = Router::new()
            .route("/", get(|| async { "hello" }))
            .route("/healthz", get(|| async { "ok" }))
            .layer(layer.unwrap());
        let server = serve(app).await;
        assert_eq!(server.statuses("/healthz", 5).await, [200; 5]);
        assert_eq!(header(&server.get("/healthz").await, "ratelimit"), None);
        assert_eq!(server.statuses("/", 2).await, [200, 429]);
        assert_eq!(server.statuses("/healthz", 2).await, [200; 2]);

        for (networks, second) in [(["127.0.0.0/8"], 200), (["10.0.0.0/8"], 429)] {
            let layer = RateLimitLayer::builder(limiter().0)
                .limit(per_minute("p", 1), peer())
                .skip(peer().within(networks).unwrap());
            let server = hello(layer.build().unwrap()).await;
            assert_eq!(server.statuses("/", 2).await, [200, second]);
        }
    });
}

#[test]
fn shadow_mode_charges_and_emits_events_but_refuses_nothing() {
    runtime().block_on(async {
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        let (limiter, _clock) = limiter();
        let limiter = Arc::new(limiter);
        let layer = RateLimitLayer::builder(Arc::clone(&limiter))
            .limit(per_minute("p", 2), peer())
            .on_event(move |event| {
                seen.lock().unwrap().push(match event {
                    Event::Allowed(_) => "allowed",
                    Event::Shadowed(_) => "shadowed",
                    _ => "something else",
                });
            })
            .shadow();
        let server = hello(layer.build().unwrap()).await;
        for _ in 0..4 {
            let response = server.get("/").await;
            assert_eq!((response.status().as_u16(), header(&response, "ratelimit")), (200, None));
        }
        assert_eq!(*events.lock().unwrap(), ["allowed", "allowed", "shadowed", "shadowed"]);
        // It is charged like any other: a layer that enforces the same limit has nothing left.
        let strict = RateLimitLayer::new(limiter, per_minute("p", 2), peer()).unwrap();
        assert_eq!(hello(strict).await.get("/").await.status(), 429);
    });
}

#[test]
fn a_layer_needs_limits_with_distinct_names() {
    let builder = || RateLimitLayer::builder(limiter().0);
    assert_eq!(builder().build().unwrap_err().field(), Some("limits"));
    let twice = builder().limit(per_minute("p", 1), peer()).limit(per_minute("p", 2), peer());
    assert_eq!(twice.build().unwrap_err().field(), Some("limits"));
}
