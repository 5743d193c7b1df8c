//! Policies of a file: several limits, shadow mode, hashed keys, overrides, and reload.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use serde_json::json;
use tokio::task::JoinSet;
use tollgate::store::{BoxStore, Memory};
use tollgate::{Limiter, ManualClock};
use tollgate_server::Config;
use tollgate_server::engine::{CheckRequest, Engine};
use tollgate_server::policy::Policies;

use crate::support::{NOW, Running};

fn policies(text: &str) -> Policies {
    let secret = |name: &str| (name == "TOLLGATE_HASH_SECRET").then(|| "s".to_owned());
    Config::of_text(&[], secret, Some(("t.yaml", text))).unwrap().policies
}

#[tokio::test]
async fn several_limits_are_charged_together_or_not_at_all() {
    let text = "
policies:
  api:
    limits:
      - {name: second, limit: 3 per 1s}
      - {name: day, limit: 5 per 1d}
";
    let clock = ManualClock::at(NOW);
    let server = Running::with_clock(policies(text), &clock).await;
    let acquire = async |cost: u64| {
        server
            .post("/v1/acquire", &format!(r#"{{"policy":"api","key":"k","cost":{cost}}}"#))
            .await
            .1
    };
    let first = acquire(3).await;
    assert_eq!((&first["verdict"], &first["binding"]), (&json!("allowed"), &json!("second")));
    let denied = acquire(3).await;
    assert_eq!((&denied["verdict"], &denied["binding"]), (&json!("denied"), &json!("day")));
    assert_eq!((&denied["limit"], &denied["policy"]), (&json!(3), &json!("api")));
    // The denial did not charge the limit `second`.
    clock.advance(std::time::Duration::from_secs(1));
    let peek = server.post("/v1/forecast", r#"{"policy":"api","key":"k"}"#).await.1;
    assert_eq!((&peek["spendable_now"], &peek["limit"]), (&json!(2), &json!(3)));
    let gate = reqwest::get(server.url("/v1/gate?policy=api&key=k&cost=3")).await.unwrap();
    let header = |name: &str| gate.headers()[name].to_str().unwrap();
    assert_eq!(header("ratelimit-policy"), r#""second";q=3;w=1, "day";q=5;w=86400"#);
    assert!(header("ratelimit").starts_with(r#""day";r=2;t="#), "{}", header("ratelimit"));
    let named = r#"{"policy":"api","key":"k","reset_at_ms":1}"#;
    let (status, problem) = server.post("/v1/refund", named).await;
    assert_eq!((status, &problem["field"]), (400, &json!("reset_at_ms")));
    server.end().await;
}

#[tokio::test]
async fn a_shadow_decides_and_never_denies() {
    let server = Running::with(policies("policies: {s: {limit: 1 per 1d, shadow: true}}")).await;
    let body = r#"{"policy":"s","key":"k"}"#;
    let first = server.post("/v1/acquire", body).await.1;
    assert_eq!((&first["allowed"], first.get("shadow")), (&json!(true), None));
    let second = server.post("/v1/acquire", body).await.1;
    assert_eq!((&second["allowed"], &second["shadow"]), (&json!(true), &json!("denied")));
    server.end().await;
}

#[tokio::test]
async fn a_shadow_delays_no_request() {
    let text = |shadow| {
        format!(
            "policies: {{s: {{algorithm: leaky_bucket, rate: 1 per 1d, queue: 5, \
             shadow: {shadow}}}}}"
        )
    };
    for (shadow, delay_ms) in [(false, 86_400_000), (true, 0)] {
        let server = Running::with_clock(policies(&text(shadow)), &ManualClock::at(NOW)).await;
        let body = r#"{"policy":"s","key":"k"}"#;
        server.post("/v1/acquire", body).await;
        let second = server.post("/v1/acquire", body).await.1;
        assert_eq!((&second["allowed"], &second["delay_ms"]), (&json!(true), &json!(delay_ms)));
        server.end().await;
    }
}

#[tokio::test]
async fn keys_can_be_hashed_and_overridden() {
    let text = "
policies:
  h: {limit: 2 per 1d, hash_keys: 1, overrides: {vip: {limit: 100 per 1d}}}
";
    let limiter = Limiter::new(BoxStore::new(Memory::new()));
    let engine = Engine::new(limiter, policies(text));
    let mut allowed = 0;
    for index in 0..200 {
        let key = format!("user:{index}");
        allowed += u64::from(
            engine.acquire(CheckRequest::new("h", &key)).await.unwrap().decision.is_allowed(),
        );
    }
    // One bit makes two keys: all subjects share two budgets.
    assert_eq!(allowed, 4);
    let vip = engine.peek(CheckRequest::new("h", "vip")).await.unwrap().decision;
    assert_eq!((vip.limit, vip.remaining), (100, 98));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_under_load_fails_no_request_and_refills_nothing() {
    let quota = |days: u64| policies(&format!("policies: {{p: {{limit: 1_000 per {days}d}}}}"));
    let limiter = Limiter::new(BoxStore::new(Memory::new()));
    let engine = Arc::new(Engine::new(limiter, quota(1)));
    let (allowed, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let (engine, allowed, ends) =
            (Arc::clone(&engine), Arc::clone(&allowed), Arc::clone(&ends));
        callers.spawn(async move {
            while !ends.load(Relaxed) {
                let answer = engine.acquire(CheckRequest::new("p", "k")).await.unwrap();
                allowed.fetch_add(u64::from(answer.decision.is_allowed()), Relaxed);
                tokio::task::yield_now().await;
            }
        });
    }
    for round in 0..200 {
        engine.replace_policies(quota(1 + round % 2));
        tokio::task::yield_now().await;
    }
    while engine.acquire(CheckRequest::new("p", "k")).await.unwrap().decision.is_allowed() {
        allowed.fetch_add(1, Relaxed);
    }
    ends.store(true, Relaxed);
    callers.join_all().await;
    // A unit takes over a minute to come back: exactly the limit passes, whenever policies were
    // reloaded.
    assert_eq!(allowed.load(Relaxed), 1_000);
}
