//! Answers that contain times, on a host whose clock runs: times are checked by bounds.
//!
//! The exact times are checked where the clock stands still. The test and the server must read the
//! same clock, that of the machine.

use serde_json::{Value, json};
use tollgate_core::{Clock, SystemClock};

use crate::{Client, Running, SLOW, Setup, Target};

const DAY_MS: u64 = 86_400_000;
/// The clock of a store may be behind or ahead by its resolution, or by slewing.
const SKEW_MS: u64 = 1_000;

/// An answer has every field, for each verdict.
pub async fn a_decision_has_every_field_with_times_in_bounds(target: &impl Target) {
    let server = target.start(Setup::of(SLOW)).await;
    let client = Client::of(&server);
    let clock = SystemClock::new();
    let now_ms = || clock.now() / 1_000;
    let before = now_ms();
    let (status, mut decision) = client.post("/v1/acquire", r#"{"key":"k","cost":4}"#).await;
    let reset_at = number(&decision, "reset_at_ms");
    let full = |at_ms: u64| at_ms + 4 * DAY_MS;
    let bounds = full(before) - SKEW_MS..=full(now_ms()) + SKEW_MS;
    assert!(bounds.contains(&reset_at), "{reset_at} is not in {bounds:?}");
    assert_eq!(decision["limits"][0]["reset_at_ms"], reset_at);
    decision["reset_at_ms"] = json!(0);
    decision["limits"][0]["reset_at_ms"] = json!(0);
    let allowed = json!({
        "allowed": true, "verdict": "allowed", "limit": 10, "remaining": 6,
        "reset_at_ms": 0, "retry_after_ms": 0, "delay_ms": 0, "policy": "default",
        "limits": [{"name": "default", "policy": "default", "limit": 10, "remaining": 6,
                    "reset_at_ms": 0, "retry_after_ms": 0}],
    });
    assert_eq!((status, decision), (200, allowed));
    // Two units are missing, less what has come back since.
    let denied = client.post("/v1/acquire", r#"{"key":"k","cost":8}"#).await.1;
    let least = 2 * DAY_MS - (now_ms() - before) - SKEW_MS;
    assert_eq!(denied["verdict"], "denied");
    assert!((least..=2 * DAY_MS).contains(&number(&denied, "retry_after_ms")), "{denied}");
    let never = client.post("/v1/acquire", r#"{"key":"k","cost":11}"#).await.1;
    assert_eq!((&never["verdict"], &never["retry_after_ms"]), (&json!("never"), &json!(null)));
    server.end().await;
}

/// A request id is charged once: the same answer again, and a conflict for another request.
pub async fn a_request_id_is_charged_once(target: &impl Target) {
    let server = target.start(Setup::of(SLOW)).await;
    let client = Client::of(&server);
    let body = r#"{"key":"k","cost":3,"request_id":"a"}"#;
    let mut first = client.post("/v1/acquire", body).await;
    assert_eq!((first.0, &first.1["remaining"]), (200, &json!(7)));
    first.1["replayed"] = json!(true);
    assert_eq!(client.post("/v1/acquire", body).await, first);
    assert_eq!(client.post("/v1/peek", r#"{"key":"k"}"#).await.1["remaining"], 7);
    let (status, problem) =
        client.post("/v1/acquire", r#"{"key":"k","cost":2,"request_id":"a"}"#).await;
    assert_eq!((status, &problem["code"]), (409, &json!("idempotency_conflict")));
    // On another key it is another request.
    let other = client.post("/v1/acquire", r#"{"key":"l","cost":2,"request_id":"a"}"#).await;
    assert_eq!((other.0, &other.1["remaining"]), (200, &json!(8)));
    server.end().await;
}

/// The gate answers proxies by status and headers.
pub async fn the_gate_answers_with_times_in_bounds(target: &impl Target) {
    let server = target.start(Setup::of(SLOW)).await;
    let client = Client::of(&server);
    let gate = async |query: &str| {
        let response = client.get(&format!("/v1/gate?{query}")).await;
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        assert_eq!(header("ratelimit-policy").as_deref(), Some(r#""default";q=10;w=864000"#));
        let (state, seconds) = split_time(&header("ratelimit").unwrap());
        let wait: Option<u64> = header("retry-after").map(|wait| wait.parse().unwrap());
        (response.status().as_u16(), state, seconds, wait)
    };
    let near = |seconds: u64, expected: u64| (expected - 60..=expected + 1).contains(&seconds);
    let (day, left) = (86_400, r#""default";r=2"#);
    let (status, state, seconds, wait) = gate("key=a%26b&cost=8").await;
    assert_eq!((status, state.as_str(), wait), (204, left, None));
    assert!(near(seconds, 8 * day), "{seconds}");
    let (status, state, seconds, wait) = gate("key=a%26b&cost=3").await;
    assert_eq!((status, state.as_str(), wait), (429, left, Some(seconds)));
    assert!(near(seconds, day), "{seconds}");
    assert_eq!(gate("key=a%26b&cost=3&deny_status=403").await.0, 403);
    // Waiting is useless: no `Retry-After`.
    let (status, state, seconds, wait) = gate("key=a%26b&cost=11").await;
    assert_eq!((status, state.as_str(), wait), (429, left, None));
    assert!(near(seconds, 8 * day), "{seconds}");
    for wrong in ["", "key=", "key=k&cost=x", "key=k&cost=%2B1", "key=k&deny_status=200", "kye=k"] {
        let status = client.get(&format!("/v1/gate?{wrong}")).await.status().as_u16();
        assert_eq!(status, 400, "{wrong}");
    }
    server.end().await;
}

/// The limits of a policy are charged together or not at all.
pub async fn a_denial_by_one_of_several_limits_charges_none(target: &impl Target) {
    let policies = "
policies:
  api:
    limits:
      - {name: day, limit: 3 per 1d}
      - {name: week, limit: 5 per 7d}
";
    let server = target.start(Setup::of(policies)).await;
    let client = Client::of(&server);
    let acquire = async |key: &str, cost: u64| {
        let body = json!({"policy": "api", "key": key, "cost": cost}).to_string();
        client.post("/v1/acquire", &body).await.1
    };
    let first = acquire("k", 2).await;
    assert_eq!((&first["verdict"], &first["binding"]), (&json!("allowed"), &json!("day")));
    let denied = acquire("k", 2).await;
    assert_eq!((&denied["verdict"], &denied["binding"]), (&json!("denied"), &json!("day")));
    let forecast = client.post("/v1/forecast", r#"{"policy":"api","key":"k"}"#).await.1;
    assert_eq!((&forecast["spendable_now"], &forecast["limit"]), (&json!(1), &json!(3)));
    // The denial charged neither: one unit of each is left to spend.
    let last = acquire("k", 1).await;
    assert_eq!((&last["verdict"], &last["remaining"]), (&json!("allowed"), &json!(0)));
    let limits = client.post("/v1/limits", r#"{"policy":"api","key":"k"}"#).await.1;
    assert!(limits.to_string().contains("week"), "{limits}");
    server.end().await;
}

/// A policy in shadow mode reports no delay; otherwise the delay is the time until the turn.
pub async fn a_delay_is_in_bounds_and_absent_in_shadow_mode(target: &impl Target) {
    for (shadow, least, most) in [(false, DAY_MS - 60_000, DAY_MS), (true, 0, 0)] {
        let policies = format!(
            "policies: {{s: {{algorithm: leaky_bucket, rate: 1 per 1d, queue: 5, \
             shadow: {shadow}}}}}"
        );
        let server = target.start(Setup::of(&policies)).await;
        let client = Client::of(&server);
        let body = r#"{"policy":"s","key":"k"}"#;
        client.post("/v1/acquire", body).await;
        let second = client.post("/v1/acquire", body).await.1;
        assert_eq!(second["allowed"], true, "{second}");
        assert!((least..=most).contains(&number(&second, "delay_ms")), "{second}");
        server.end().await;
    }
}

fn number(reply: &Value, field: &str) -> u64 {
    reply[field].as_u64().unwrap_or_else(|| panic!("{field} in {reply}"))
}

/// A `RateLimit` field without its time, and the time.
fn split_time(field: &str) -> (String, u64) {
    let (state, time) = field.rsplit_once(";t=").expect(field);
    (state.to_owned(), time.parse().expect(field))
}
