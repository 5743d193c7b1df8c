//! Decisions: every field, every operation, every error.

use std::time::Duration;

use serde_json::json;

use crate::{ADMIN, Client, FAST, ManualTarget, NOW, Running, SECRET, SLOW, Setup, Target};

/// An answer has every field, for each verdict.
pub async fn a_decision_has_every_field(target: &impl ManualTarget) {
    let server = target.start_at_now(Setup::of(FAST)).await;
    let client = Client::of(&server);
    let (status, decision) = client.post("/v1/acquire", r#"{"key":"k","cost":4}"#).await;
    let allowed = json!({
        "allowed": true, "verdict": "allowed", "limit": 10, "remaining": 6,
        "reset_at_ms": NOW / 1_000 + 4_000, "retry_after_ms": 0, "delay_ms": 0, "policy": "default",
        "limits": [{"name": "default", "policy": "default", "limit": 10, "remaining": 6,
                    "reset_at_ms": NOW / 1_000 + 4_000, "retry_after_ms": 0}],
    });
    assert_eq!((status, decision), (200, allowed));
    let (status, decision) = client.post("/v1/acquire", r#"{"key":"k","cost":8}"#).await;
    assert_eq!((status, &decision["verdict"]), (200, &json!("denied")));
    assert_eq!(decision["retry_after_ms"], json!(2_000));
    let (status, decision) = client.post("/v1/acquire", r#"{"key":"k","cost":11}"#).await;
    assert_eq!((status, &decision["verdict"]), (200, &json!("never")));
    assert_eq!(decision["retry_after_ms"], json!(null));
    server.end().await;
}

/// The wait of a denial is exact, and a request id is charged once.
pub async fn a_denied_request_passes_after_its_wait_and_not_earlier(target: &impl ManualTarget) {
    let server = target.start_at_now(Setup::of(FAST)).await;
    let client = Client::of(&server);
    client.post("/v1/acquire", r#"{"key":"k","cost":10}"#).await;
    let body = r#"{"key":"k","cost":3,"request_id":"a"}"#;
    let wait = client.post("/v1/acquire", body).await.1["retry_after_ms"].as_u64().unwrap();
    target.advance(&server, Duration::from_millis(wait - 1)).await;
    assert_eq!(client.post("/v1/acquire", body).await.1["verdict"], "denied");
    target.advance(&server, Duration::from_millis(1)).await;
    let mut first = client.post("/v1/acquire", body).await.1;
    assert_eq!((&first["verdict"], &first["replayed"]), (&json!("allowed"), &json!(null)));
    // The same id again: the same answer, which says so, and nothing is charged.
    target.advance(&server, Duration::from_millis(1)).await;
    first["replayed"] = json!(true);
    assert_eq!(client.post("/v1/acquire", body).await.1, first);
    let (status, problem) =
        client.post("/v1/acquire", r#"{"key":"k","cost":2,"request_id":"a"}"#).await;
    assert_eq!((status, &problem["code"]), (409, &json!("idempotency_conflict")));
    // On another key it is another request.
    let other = client.post("/v1/acquire", r#"{"key":"l","cost":2,"request_id":"a"}"#).await;
    assert_eq!((other.0, &other.1["remaining"]), (200, &json!(8)));
    server.end().await;
}

/// The operations other than charging.
pub async fn peek_forecast_refund_and_reset(target: &impl Target) {
    let (hash_secret, admin_tokens) = (SECRET, &[ADMIN][..]);
    let server = target.start(Setup { hash_secret, admin_tokens, ..Setup::of(SLOW) }).await;
    let client = Client::of(&server).with_token(ADMIN);
    let body = r#"{"key":"k","cost":6,"receipt":true}"#;
    let charge = client.post("/v1/acquire", body).await.1;
    let peek = client.post("/v1/peek", r#"{"key":"k","cost":4}"#).await.1;
    assert_eq!((&peek["verdict"], &peek["remaining"]), (&json!("allowed"), &json!(4)));
    let forecast = client.post("/v1/forecast", r#"{"key":"k"}"#).await.1;
    assert_eq!((&forecast["spendable_now"], &forecast["limit"]), (&json!(4), &json!(10)));
    assert_eq!(forecast["full_at_ms"], charge["reset_at_ms"]);
    let body = r#"{"key":"k","cost":2,"request_id":"r"}"#;
    for replayed in [json!(null), json!(true)] {
        let refund = client.post("/v1/refund", body).await.1;
        assert_eq!(refund["replayed"], replayed);
        assert_eq!((&refund["refunded"], &refund["remaining"]), (&json!(2), &json!(6)));
    }
    let body = json!({"receipt": charge["receipt"]}).to_string();
    for replayed in [json!(null), json!(true)] {
        let refund = client.post("/v1/refund", &body).await.1;
        assert_eq!(refund["replayed"], replayed);
        assert_eq!((&refund["refunded"], &refund["remaining"]), (&json!(4), &json!(10)));
        assert_eq!(refund["limits"][0]["refunded"], 4);
        assert_eq!(refund["limits"][0]["policy"], "default");
    }
    assert_eq!(client.post("/v1/reset", r#"{"key":"k"}"#).await, (200, json!({"reset": true})));
    assert_eq!(client.post("/v1/peek", r#"{"key":"k"}"#).await.1["remaining"], 10);
    server.end().await;
}

/// Elements of a batch are decided in order, and each fails alone.
pub async fn a_batch_is_decided_in_order_and_each_element_fails_alone(target: &impl Target) {
    let server = target.start(Setup::of(SLOW)).await;
    let client = Client::of(&server);
    let body = r#"{"requests":[{"key":"k","cost":6},{"key":"k","cost":0},{"key":"k","cost":6},3,
        {"key":"k","cost":4,"request_id":"i"},{"key":"k","cost":4,"request_id":"i"},{"cots":1}]}"#;
    let (status, reply) = client.post("/v1/acquire_many", body).await;
    let decisions = reply["decisions"].as_array().unwrap();
    let verdicts: Vec<_> = decisions.iter().map(|one| one["verdict"].as_str()).collect();
    let [yes, no] = [Some("allowed"), Some("denied")];
    assert_eq!((status, verdicts), (200, vec![yes, None, no, None, yes, yes, None]));
    let field = |index: usize| decisions[index]["error"]["field"].as_str().unwrap();
    assert_eq!(
        [field(1), field(3), field(6)],
        ["requests[1].cost", "requests[3]", "requests[6].cots"]
    );
    let mut replayed = decisions[4].clone();
    replayed["replayed"] = json!(true);
    assert_eq!(decisions[5], replayed);
    let many = vec![r#"{"key":"a"}"#; 1_001].join(",");
    let (status, problem) =
        client.post("/v1/acquire_many", &format!(r#"{{"requests":[{many}]}}"#)).await;
    assert_eq!((status, &problem["field"]), (400, &json!("requests")));
    server.end().await;
}

/// A wrong request is refused with the name of the wrong field.
pub async fn errors_name_their_field(target: &impl Target) {
    let server = target.start(Setup::of(SLOW)).await;
    let client = Client::of(&server);
    let long = format!(r#"{{"key":"{}"}}"#, "k".repeat(513));
    let huge = format!(r#"{{"key":"{}"}}"#, "k".repeat(1024 * 1024));
    let id = format!(r#"{{"key":"k","request_id":"{}"}}"#, "i".repeat(65));
    let cases = [
        ("", 400, "body"),
        ("[]", 400, "body"),
        ("{", 400, "body"),
        (r#"{"key":"k"} x"#, 400, "body"),
        ("{}", 400, "key"),
        (r#"{"key":""}"#, 400, "key"),
        (r#"{"key":null}"#, 400, "key"),
        (&long, 400, "key"),
        (&huge, 413, "body"),
        (r#"{"key":"k","cost":0}"#, 400, "cost"),
        (r#"{"key":"k","cost":-1}"#, 400, "cost"),
        (r#"{"key":"k","cost":1.5}"#, 400, "cost"),
        (r#"{"key":"k","cost":"1"}"#, 400, "cost"),
        (r#"{"key":"k","cost":4294967296}"#, 400, "cost"),
        (r#"{"key":"k","cost":99999999999999999999}"#, 400, "cost"),
        (r#"{"key":"k","cost":1,"cost":2}"#, 400, "cost"),
        (r#"{"key":"k","Cost":1}"#, 400, "Cost"),
        (r#"{"key":"k","request_id":""}"#, 400, "request_id"),
        (&id, 400, "request_id"),
        (r#"{"key":"k","policy":"unknown"}"#, 404, "policy"),
    ];
    for (body, status, field) in cases {
        let short: String = body.chars().take(40).collect();
        let (found, problem) = client.post("/v1/acquire", body).await;
        assert_eq!((found, &problem["field"]), (status, &json!(field)), "{short}");
        assert_eq!(problem["status"], status, "{short}");
    }
    assert_eq!(client.post("/v1/peek", &id).await.1["field"], "request_id");
    let whole = client.post("/v1/acquire", r#"{"key":"k","cost":2.0}"#).await.1;
    assert_eq!(whole["remaining"], 8);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(client.post("/v1/acquire", &deep).await.0, 400);
    assert_eq!(client.post("/v1/nothing", "{}").await.0, 404);
    server.end().await;
}

/// The gate answers proxies by status and headers.
pub async fn the_gate_answers_by_status_and_headers(target: &impl ManualTarget) {
    let server = target.start_at_now(Setup::of(FAST)).await;
    let client = Client::of(&server);
    let gate = async |query: &str| {
        let response = client.get(&format!("/v1/gate?{query}")).await;
        let header = |name: &str| {
            response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        let headers = ["ratelimit-policy", "ratelimit", "retry-after"].map(header);
        (response.status().as_u16(), headers.map(Option::unwrap_or_default))
    };
    let policy = r#""default";q=10;w=10"#;
    let headers = |state: &str, wait: &str| [policy, state, wait].map(str::to_owned);
    assert_eq!(gate("key=a%26b&cost=8").await, (204, headers(r#""default";r=2;t=8"#, "")));
    assert_eq!(gate("key=a%26b&cost=3").await, (429, headers(r#""default";r=2;t=1"#, "1")));
    assert_eq!(gate("key=a%26b&cost=3&deny_status=403").await.0, 403);
    assert_eq!(gate("key=a%26b&cost=3&deny_status=401").await.0, 401);
    // Waiting is useless: no `Retry-After`.
    assert_eq!(gate("key=a%26b&cost=11").await, (429, headers(r#""default";r=2;t=8"#, "")));
    for wrong in ["", "key=", "key=k&cost=x", "key=k&cost=%2B1", "key=k&deny_status=200", "kye=k"] {
        assert_eq!(gate(wrong).await.0, 400, "{wrong}");
    }
    server.end().await;
}
