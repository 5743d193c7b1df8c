//! Rights to give back: what a caller passes under a limit is bounded by the limit, whatever it
//! refunds, and what is no receipt gives nothing back.

use serde_json::{Value, json};

use crate::{ADMIN, CALLER, Client, Running, SECRET, Setup, Target};

const LIMIT: u64 = 50;
/// Every algorithm, under its own name.
const EVERY: &str = "policies:
  gcra: {limit: 10 per 1d}
  token_bucket: {algorithm: token_bucket, capacity: 10, refill: 10 per 1d}
  leaky_bucket: {algorithm: leaky_bucket, rate: 10 per 1d, queue: 9}
  fixed_window: {algorithm: fixed_window, limit: 10 per 1d, anchor: first_hit}
  sliding_window: {algorithm: sliding_window, limit: 10 per 1d}
  sliding_log: {algorithm: sliding_log, limit: 10 per 1d}
";
const ALGORITHMS: [&str; 6] =
    ["gcra", "token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_log"];

/// With receipts, for a caller and an administrator.
const fn setup(policies: &str) -> Setup<'_> {
    let (tokens, admin_tokens) = (&[CALLER] as &[&str], &[ADMIN] as &[&str]);
    Setup { tokens, admin_tokens, receipt_secret: SECRET, ..Setup::of(policies) }
}

async fn acquire(client: &Client, policy: &str, cost: u64) -> Value {
    let body = json!({"policy": policy, "key": "k", "cost": cost, "receipt": true});
    client.post("/v1/acquire", &body.to_string()).await.1
}

async fn refund(client: &Client, receipt: &Value) -> (u16, Value) {
    client.post("/v1/refund", &json!({"receipt": receipt}).to_string()).await
}

/// Acquires all and gives all back, a hundred times: a caller without receipts passes the limit.
pub async fn a_caller_passes_the_limit_and_no_more(target: &impl Target) {
    let policies = format!("policies: {{p: {{limit: {LIMIT} per 1d}}}}");
    let server = target.start(setup(&policies)).await;
    let [caller, admin] = [CALLER, ADMIN].map(|token| Client::of(&server).with_token(token));
    let all = json!({"policy": "p", "key": "k", "cost": u32::MAX}).to_string();
    let mut passed = 0;
    for _ in 0..100 {
        let allowed = acquire(&caller, "p", LIMIT).await["allowed"] == json!(true);
        let (status, problem) = caller.post("/v1/refund", &all).await;
        assert_eq!((status, &problem["code"]), (403, &json!("forbidden")));
        passed += if allowed { LIMIT } else { 0 };
    }
    assert_eq!(passed, LIMIT);
    // An administrator may do what a caller may not.
    let (status, refunded) = admin.post("/v1/refund", &all).await;
    assert_eq!((status, &refunded["refunded"]), (200, &json!(LIMIT)));
    server.end().await;
}

/// A text that is no receipt of this service is refused, and gives nothing back.
pub async fn what_is_no_receipt_is_refused_on_every_algorithm(target: &impl Target) {
    let server = target.start(setup(EVERY)).await;
    let strange = Setup { receipt_secret: "another-secret-of-servers", ..setup(EVERY) };
    let strange = target.start(strange).await;
    let [client, admin] = [CALLER, ADMIN].map(|token| Client::of(&server).with_token(token));
    let other = Client::of(&strange).with_token(CALLER);
    for algorithm in ALGORITHMS {
        let charge = acquire(&client, algorithm, 4).await;
        let receipt = charge["receipt"].as_str().unwrap();
        let foreign = acquire(&other, algorithm, 4).await["receipt"].clone();
        let reset_at_ms = charge["reset_at_ms"].to_string();
        let cut = &receipt[..receipt.len() - 1];
        let mut forgeries: Vec<Value> = vec![json!(""), json!(reset_at_ms), json!(cut), foreign];
        // Every bit of it.
        for bit in 0..receipt.len() * 8 {
            let mut flipped = receipt.as_bytes().to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            forgeries.extend(String::from_utf8(flipped).ok().map(Value::String));
        }
        let http = reqwest::Client::new();
        for forged in forgeries {
            let request = http.post(admin.url("/v1/refund")).bearer_auth(ADMIN);
            let request = request.body(json!({"receipt": forged}).to_string());
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            let body = response.bytes().await.unwrap();
            let problem: Value = serde_json::from_slice(&body).unwrap();
            let (code, field) = (&problem["code"], &problem["field"]);
            assert_eq!((status, code), (400, &json!("invalid_request")), "{forged}: {problem}");
            assert_eq!(field, &json!("receipt"), "{forged}");
        }
        let peek = json!({"policy": algorithm, "key": "k"}).to_string();
        assert_eq!(client.post("/v1/peek", &peek).await.1["remaining"], 6, "{algorithm}");
        let (status, reply) = refund(&client, &json!(receipt)).await;
        assert_eq!((status, &reply["remaining"]), (200, &json!(10)), "{algorithm}: {reply}");
    }
    server.end().await;
    strange.end().await;
}

/// The setting `refunds` of a policy says who may give back.
pub async fn a_policy_says_who_may_give_back<T: Target>(target: &T) {
    let file = "policies:
  receipt: {limit: 10 per 1d}
  admin: {limit: 10 per 1d, refunds: admin}
  off: {limit: 10 per 1d, refunds: off}
";
    let server = target.start(setup(file)).await;
    let [caller, admin] = [CALLER, ADMIN].map(|token| Client::of(&server).with_token(token));
    // Of callers and administrators, with a receipt and without one.
    let cases = [
        ("receipt", [200, 403, 200, 200], "receipt"),
        ("admin", [403, 403, 200, 200], "administrator"),
        ("off", [403, 403, 403, 403], "no refunds"),
    ];
    for (policy, expected, accepted) in cases {
        let receipt = acquire(&caller, policy, 3).await["receipt"].clone();
        let units = json!({"policy": policy, "key": "k"}).to_string();
        let mut statuses = Vec::new();
        for client in [&caller, &admin] {
            for reply in [refund(client, &receipt).await, client.post("/v1/refund", &units).await] {
                let detail = reply.1["detail"].as_str().unwrap_or(accepted);
                assert!(detail.contains(accepted), "{policy}: {detail}");
                statuses.push(reply.0);
            }
        }
        assert_eq!(statuses, expected, "{policy}");
    }
    admin.post("/v1/reset", &json!({"policy": "off", "key": "k"}).to_string()).await;
    if T::HAS_METRICS {
        let text = caller.get("/metrics").await.text().await.unwrap();
        for line in [
            "tollgate_refunds_total{policy=\"receipt\",outcome=\"given_back\"} 1\n",
            "tollgate_refunds_total{policy=\"receipt\",outcome=\"replayed\"} 1\n",
            "tollgate_refunds_total{policy=\"receipt\",outcome=\"nothing_left\"} 1\n",
            "tollgate_refunds_total{policy=\"off\",outcome=\"refused\"} 4\n",
            "tollgate_resets_total{policy=\"off\",outcome=\"done\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
    server.end().await;
}

/// What charged nothing in the store proves nothing.
pub async fn a_receipt_is_only_for_what_was_charged(target: &impl Target) {
    let file = "policies: {p: {limit: 1 per 1d}, s: {limit: 1 per 1d, shadow: true}}";
    let server = target.start(setup(file)).await;
    let client = Client::of(&server).with_token(CALLER);
    for policy in ["p", "s"] {
        assert!(acquire(&client, policy, 1).await["receipt"].is_string(), "{policy}");
        let second = acquire(&client, policy, 1).await;
        assert!(second["receipt"].is_null(), "{second}");
        let body = json!({"policy": policy, "key": "other", "receipt": true}).to_string();
        assert!(client.post("/v1/peek", &body).await.1["receipt"].is_null());
        let body = json!({"policy": policy, "key": "other"}).to_string();
        assert!(client.post("/v1/acquire", &body).await.1["receipt"].is_null());
    }
    server.end().await;
}
