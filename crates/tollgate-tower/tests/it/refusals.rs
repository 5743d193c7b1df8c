//! The responses to refused requests, and whether their numbers are true.

use std::time::Duration;

use tollgate::algorithm::Gcra;
use tollgate::{Cost, Limit, Quota};
use tollgate_tower::{LimitRule, RateLimitLayer, Refusal};

use crate::support::{header, hello, json, limiter, peer, per_minute, runtime};

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

#[test]
fn a_refusal_is_a_problem_with_the_policies_that_were_violated() {
    runtime().block_on(async {
        let (limiter, _clock) = limiter();
        let server = hello(RateLimitLayer::new(limiter, per_minute("per-ip", 1), peer()).unwrap());
        let server = server.await;
        assert_eq!(server.get("/").await.status(), 200);
        let refused = server.get("/").await;
        assert_eq!(refused.status(), 429);
        assert_eq!(header(&refused, "content-type"), Some("application/problem+json"));
        assert_eq!(header(&refused, "cache-control"), Some("no-store"));
        assert_eq!(header(&refused, "retry-after"), Some("60"));
        assert_eq!(
            json(&refused),
            serde_json::json!({
                "type": QUOTA_EXCEEDED,
                "title": "Quota Exceeded",
                "status": 429,
                "detail": "try again in 60000 ms",
                "violated-policies": ["per-ip"],
                "retry_after_ms": 60_000,
            })
        );
    });
}

#[test]
fn only_the_limits_that_refuse_are_named_and_nothing_is_charged() {
    runtime().block_on(async {
        let (limiter, _clock) = limiter();
        let layer = RateLimitLayer::builder(limiter)
            .limit(per_minute("wide", 3), peer())
            .limit(per_minute("narrow", 1), peer())
            .build();
        let server = hello(layer.unwrap()).await;
        assert_eq!(server.get("/").await.status(), 200);
        for _ in 0..5 {
            let refused = server.get("/").await;
            assert_eq!(json(&refused)["violated-policies"], serde_json::json!(["narrow"]));
            let stated = header(&refused, "ratelimit").unwrap();
            assert!(stated.starts_with("\"wide\";r=2;"), "denied requests cost nothing: {stated}");
        }
    });
}

/// Waits that are not whole seconds, limits that refill slowly and quickly, costs.
#[test]
fn a_client_that_waits_exactly_retry_after_is_admitted() {
    runtime().block_on(async {
        for (units, period_ms, cost) in
            [(1, 1, 1), (3, 1_000, 1), (7, 10_000, 5), (2, 86_400_000, 2)]
        {
            let (limiter, clock) = limiter();
            let quota = Quota::new(units, Duration::from_millis(period_ms));
            let limit = Limit::new("p", Gcra::new(quota).unwrap()).unwrap();
            let rule = LimitRule::new(limit, peer()).cost(move |_| Cost::new(cost).unwrap());
            let server =
                hello(RateLimitLayer::builder(limiter).limit_rule(rule).build().unwrap()).await;
            for round in 0..20 {
                let mut response = server.get("/").await;
                while response.status() == 200 {
                    response = server.get("/").await;
                }
                let wait: u64 = header(&response, "retry-after").unwrap().parse().unwrap();
                let wait_ms = json(&response)["retry_after_ms"].as_u64().unwrap();
                assert_eq!(wait, wait_ms.div_ceil(1_000));
                clock.advance(Duration::from_millis(wait_ms - 1));
                assert_eq!(
                    server.get("/").await.status(),
                    429,
                    "round {round}: a millisecond early"
                );
                clock.advance(Duration::from_secs(wait) - Duration::from_millis(wait_ms - 1));
                assert_eq!(server.get("/").await.status(), 200, "round {round}: after {wait} s");
            }
        }
    });
}

#[test]
fn a_request_that_can_never_pass_has_no_retry_after() {
    runtime().block_on(async {
        let (limiter, _clock) = limiter();
        let rule = LimitRule::new(per_minute("p", 3), peer()).cost(|_| Cost::new(4).unwrap());
        let server =
            hello(RateLimitLayer::builder(limiter).limit_rule(rule).build().unwrap()).await;
        let refused = server.get("/").await;
        assert_eq!(refused.status(), 429);
        assert_eq!(header(&refused, "retry-after"), None);
        assert_eq!(json(&refused).get("retry_after_ms"), None);
        assert!(json(&refused)["detail"].as_str().unwrap().contains("useless"));
    });
}

#[test]
fn a_refusal_can_be_changed() {
    runtime().block_on(async {
        let (limiter, _clock) = limiter();
        let layer = RateLimitLayer::builder(limiter)
            .limit(per_minute("p", 1), peer())
            .respond_with(|refusal, mut response| {
                assert!(matches!(refusal, Refusal::Denied { .. }));
                *response.body_mut() = "come back later".into();
                *response.status_mut() = http::StatusCode::IM_A_TEAPOT;
                response
            });
        let server = hello(layer.build().unwrap()).await;
        assert_eq!(server.statuses("/", 2).await, [200, 418]);
        let refused = server.get("/").await;
        assert_eq!(refused.body(), "come back later");
        assert_eq!(header(&refused, "retry-after"), Some("60"), "the rest stays");
    });
}

#[test]
fn a_server_that_provides_no_peer_address_is_an_error() {
    runtime().block_on(async {
        let (limiter, _clock) = limiter();
        // Nothing leaves a plain address in the extensions here.
        let client = tollgate_tower::extract::ClientIp::peer::<std::net::SocketAddr>();
        let server = hello(RateLimitLayer::new(limiter, per_minute("p", 1), client).unwrap()).await;
        let refused = server.get("/").await;
        assert_eq!(refused.status(), 500);
        let problem = json(&refused);
        assert_eq!(
            (&problem["code"], &problem["field"]),
            (&"config_invalid".into(), &"peer address".into())
        );
    });
}
