//! Final costs of charges: given back or charged more, also into debt, once.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{ADMIN, CALLER, Client, FAST, ManualTarget, Running, SECRET, Setup, Target};

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

/// Several limits, of which two have the same name.
const TWO: &str = "policies:
  two: {limits: [{name: second, limit: 10 per 1d}, {name: day, limit: 20 per 1d}]}
  other: {limits: [{name: day, limit: 30 per 1d}]}
";

const fn setup(policies: &str) -> Setup<'_> {
    Setup { receipt_secret: SECRET, ..Setup::of(policies) }
}

/// The receipt of a charge.
async fn charge(client: &Client, policy: &str, key: &str, cost: u64) -> Value {
    let body = json!({"policy": policy, "key": key, "cost": cost, "receipt": true}).to_string();
    let (status, answer) = client.post("/v1/acquire", &body).await;
    assert_eq!((status, &answer["allowed"]), (200, &json!(true)), "{policy}: {answer}");
    answer["receipt"].clone()
}

async fn settle(client: &Client, receipt: &Value, cost: u64) -> (u16, Value) {
    let body = json!({"receipt": receipt, "cost": cost}).to_string();
    client.post("/v1/settle", &body).await
}

async fn settle_by_limit(client: &Client, receipt: &Value, costs: Value) -> (u16, Value) {
    client.post("/v1/settle", &json!({"receipt": receipt, "costs": costs}).to_string()).await
}

/// Units given back, charged and dropped, and what is left.
fn numbers(answer: &Value) -> [u64; 4] {
    ["refunded", "charged", "dropped", "remaining"].map(|name| answer[name].as_u64().expect(name))
}

async fn peek(client: &Client, policy: &str, key: &str) -> Value {
    client.post("/v1/peek", &json!({"policy": policy, "key": key}).to_string()).await.1
}

/// A final cost below, at and above what was charged, once each.
pub async fn a_charge_is_settled_down_and_up_and_into_debt(target: &impl Target) {
    let server = target.start(setup(EVERY)).await;
    let client = Client::of(&server);
    for algorithm in ALGORITHMS {
        let cases = [(1, [3, 0, 0, 9]), (4, [0, 0, 0, 6]), (9, [0, 5, 0, 1]), (17, [0, 13, 0, 0])];
        for (cost, expected) in cases {
            let key = format!("to-{cost}");
            let receipt = charge(&client, algorithm, &key, 4).await;
            let (status, mut settled) = settle(&client, &receipt, cost).await;
            assert_eq!((status, numbers(&settled)), (200, expected), "{algorithm}: {settled}");
            let limit = &settled["limits"][0];
            assert_eq!((numbers(limit), &limit["name"]), (expected, &json!(algorithm)));
            assert_eq!((&limit["policy"], &settled["limit"]), (&json!(algorithm), &json!(10)));
            let again = settle(&client, &receipt, cost).await;
            settled["replayed"] = json!(true);
            assert_eq!(again, (200, settled), "{algorithm}: the same answer");
            // For another cost it is another request, and so is a refund.
            let refund = json!({"receipt": receipt}).to_string();
            for (status, problem) in
                [settle(&client, &receipt, 2).await, client.post("/v1/refund", &refund).await]
            {
                let code = &problem["code"];
                assert_eq!((status, code), (409, &json!("idempotency_conflict")), "{problem}");
            }
            let peeked = peek(&client, algorithm, &key).await;
            assert_eq!(peeked["remaining"], expected[3], "{algorithm}");
            assert_eq!(peeked["allowed"], expected[3] > 0, "{algorithm}");
        }
        // A refund is a settlement for nothing.
        let receipt = charge(&client, algorithm, "refunded", 4).await;
        let refund = json!({"receipt": receipt}).to_string();
        assert_eq!(numbers(&client.post("/v1/refund", &refund).await.1), [4, 0, 0, 10]);
        assert_eq!(settle(&client, &receipt, 0).await.1["replayed"], true, "{algorithm}");
    }
    server.end().await;
}

/// The policy bounds the debt, and the answer says what exceeded it.
pub async fn what_exceeds_the_largest_debt_is_dropped(target: &impl Target) {
    let policies = "policies:
  default: {limit: 10 per 1d}
  some: {limit: 10 per 1d, max_debt: 5}
  none: {limit: 10 per 1d, max_debt: 0}
";
    let server = target.start(setup(policies)).await;
    let client = Client::of(&server);
    for (policy, max_debt, charged) in [("default", 10, 16), ("some", 5, 11), ("none", 0, 6)] {
        let body = json!({"policy": policy, "key": "k"}).to_string();
        let limits = client.post("/v1/limits", &body).await.1;
        assert_eq!(limits["limits"][0]["max_debt"], max_debt, "{limits}");
        let receipt = charge(&client, policy, "k", 4).await;
        let settled = settle(&client, &receipt, 30).await.1;
        assert_eq!(numbers(&settled), [0, charged, 26 - charged, 0], "{policy}: {settled}");
    }
    let receipt = charge(&client, "some", "l", 1).await;
    let settled = settle(&client, &receipt, u64::MAX).await.1;
    assert_eq!(settled["charged"], 14, "{settled}");
    server.end().await;
}

/// Several limits and several keys: a cost for each, by its name, its policy or its place.
pub async fn final_costs_are_named_by_limit(target: &impl Target) {
    let server = target.start(setup(TWO)).await;
    let client = Client::of(&server);
    let left = async |policy: &str, key: &str| -> Vec<u64> {
        let limits = peek(&client, policy, key).await["limits"].clone();
        let each = limits.as_array().expect("limits").iter();
        each.map(|limit| limit["remaining"].as_u64().expect("units")).collect()
    };
    let receipt = charge(&client, "two", "one", 4).await;
    let settled = settle_by_limit(&client, &receipt, json!({"day": 11})).await;
    assert_eq!((settled.0, numbers(&settled.1)), (200, [0, 7, 0, 6]), "{}", settled.1);
    assert_eq!(left("two", "one").await, [6, 9]);
    // The receipt is used up for every limit of it.
    assert_eq!(settle_by_limit(&client, &receipt, json!({"second": 1})).await.0, 409);
    assert_eq!(settle_by_limit(&client, &receipt, json!({"second": 4, "day": 11})).await.0, 200);
    // One cost for both.
    let receipt = charge(&client, "two", "both", 4).await;
    assert_eq!(numbers(&settle(&client, &receipt, 6).await.1), [0, 2, 0, 4]);
    assert_eq!(left("two", "both").await, [4, 14]);

    let receipt = both(&client).await;
    let costs = json!({"other/day": 1, "limits[0]": 5});
    let (status, settled) = settle_by_limit(&client, &receipt, costs).await;
    assert_eq!((status, numbers(&settled)), (200, [2, 3, 0, 5]), "one down, one up: {settled}");
    let each: Vec<[u64; 4]> =
        settled["limits"].as_array().expect("limits").iter().map(numbers).collect();
    assert_eq!(each, [[0, 3, 0, 5], [0, 0, 0, 18], [2, 0, 0, 29]]);
    server.end().await;
}

/// The receipt of charges of two keys, of 2 and of 3 units.
async fn both(client: &Client) -> Value {
    let body = json!({"receipt": true, "charges": [
        {"policy": "two", "key": "a", "cost": 2}, {"policy": "other", "key": "b", "cost": 3}]});
    let (status, answer) = client.post("/v1/acquire", &body.to_string()).await;
    assert_eq!((status, &answer["allowed"]), (200, &json!(true)), "{answer}");
    answer["receipt"].clone()
}

/// An error names the field, and has not used the receipt up.
pub async fn errors_of_final_costs_name_the_field(target: &impl Target) {
    let server = target.start(setup(TWO)).await;
    let client = Client::of(&server);
    let receipt = &both(&client).await;
    for (costs, why) in [
        (json!({"day": 1}), "several"),
        (json!({"hour": 1}), "second, two/day, other/day"),
        (json!({"limits[3]": 1}), "no limit"),
        (json!({"two/second": 1, "second": 1}), "twice"),
        (json!({}), "empty"),
        (json!(7), "an object"),
    ] {
        let (status, problem) = settle_by_limit(&client, receipt, costs).await;
        assert_eq!((status, &problem["field"]), (400, &json!("costs")), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|text| text.contains(why)), "{problem}");
    }
    let (status, problem) = settle_by_limit(&client, receipt, json!({"second": -1})).await;
    assert_eq!((status, &problem["field"]), (400, &json!("costs.second")));
    // One number for charges of different costs is no statement about either.
    let (status, problem) = settle(&client, receipt, 5).await;
    assert_eq!((status, &problem["field"]), (400, &json!("cost")), "{problem}");
    for (body, field) in [
        (json!({"receipt": receipt}), "cost"),
        (json!({"receipt": receipt, "cost": 1, "costs": {"second": 1}}), "costs"),
        (json!({"cost": 1}), "receipt"),
        (json!({"receipt": receipt, "cost": "1"}), "cost"),
        (json!({"receipt": receipt, "cost": 1, "key": "a"}), "key"),
        (json!({"receipt": "no-receipt", "cost": 1}), "receipt"),
    ] {
        let (status, problem) = client.post("/v1/settle", &body.to_string()).await;
        assert_eq!((status, &problem["field"]), (400, &json!(field)), "{body}");
    }
    for (policy, key, left) in [("two", "a", 8), ("other", "b", 27)] {
        assert_eq!(peek(&client, policy, key).await["remaining"], left);
    }
    assert_eq!(settle(&client, receipt, 0).await.0, 200);
    server.end().await;
}

/// To settle for less takes the right to give back; to settle for more takes the receipt.
pub async fn only_to_give_back_takes_a_right<T: Target>(target: &T) {
    let policies = "policies:
  receipt: {limit: 10 per 1d}
  admin: {limit: 10 per 1d, refunds: admin}
  off: {limit: 10 per 1d, refunds: off}
";
    let tokens = Setup { tokens: &[CALLER], admin_tokens: &[ADMIN], ..setup(policies) };
    let server = target.start(tokens).await;
    let [caller, admin] = [CALLER, ADMIN].map(|token| Client::of(&server).with_token(token));
    for (policy, by_caller, by_admin) in
        [("receipt", 200, 200), ("admin", 403, 200), ("off", 403, 403)]
    {
        for (client, expected) in [(&caller, by_caller), (&admin, by_admin)] {
            let receipt = charge(&caller, policy, "down", 2).await;
            let (status, answer) = settle(client, &receipt, 1).await;
            assert_eq!(status, expected, "{policy}: {answer}");
            // What was refused has not used the receipt up.
            if status == 403 {
                assert_eq!(settle(client, &receipt, 2).await.0, 200, "{policy}");
            }
        }
        let receipt = charge(&caller, policy, "up", 2).await;
        assert_eq!(settle(&caller, &receipt, 3).await.0, 200, "{policy}");
    }
    if T::HAS_METRICS {
        let text = caller.get("/metrics").await.text().await.expect("metrics");
        for line in [
            "tollgate_settlements_total{policy=\"receipt\",outcome=\"given_back\"} 2\n",
            "tollgate_settlements_total{policy=\"receipt\",outcome=\"charged\"} 1\n",
            "tollgate_settlements_total{policy=\"off\",outcome=\"refused\"} 2\n",
            "tollgate_settlements_total{policy=\"off\",outcome=\"unchanged\"} 2\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
    server.end().await;
}

/// A hundred copies of one request are applied once, and get the same answer.
pub async fn a_hundred_at_once_settle_once(target: &impl Target) {
    let server = target.start(setup("policies: {p: {limit: 100 per 7d}}")).await;
    let client = Client::of(&server);
    for (cost, expected) in [(5, [15, 0, 0, 95]), (50, [0, 30, 0, 50]), (150, [0, 130, 0, 0])] {
        let receipt = charge(&client, "p", &format!("to-{cost}"), 20).await;
        let mut copies = JoinSet::new();
        for _ in 0..100 {
            let (client, receipt) = (client.clone(), receipt.clone());
            copies.spawn(async move { settle(&client, &receipt, cost).await });
        }
        let mut answers = copies.join_all().await;
        // A host may refuse what it cannot decide in time: that can be sent again.
        answers.retain(|(status, _)| *status != 503);
        answers.push(settle(&client, &receipt, cost).await);
        let first = answers.iter().filter(|(_, answer)| answer.get("replayed").is_none()).count();
        assert!(first <= 1, "{first}");
        for (status, answer) in answers {
            assert_eq!((status, numbers(&answer)), (200, expected), "{answer}");
        }
        assert_eq!(peek(&client, "p", &format!("to-{cost}")).await["remaining"], expected[3]);
    }
    server.end().await;
}

/// A debt is worked off at the rate of the limit, exact to the millisecond; and what has decayed is
/// not given back.
pub async fn a_debt_is_worked_off_to_the_millisecond(target: &impl ManualTarget) {
    let server = target.start_at_now(setup(FAST)).await;
    let client = Client::of(&server);
    let receipt = charge(&client, "default", "debt", 4).await;
    assert_eq!(numbers(&settle(&client, &receipt, 17).await.1), [0, 13, 0, 0]);
    let body = r#"{"key":"debt"}"#;
    let denied = client.post("/v1/acquire", body).await.1;
    assert_eq!((&denied["remaining"], &denied["retry_after_ms"]), (&json!(0), &json!(8_000)));
    let receipt = charge(&client, "default", "decays", 4).await;
    target.advance(&server, Duration::from_millis(3_000)).await;
    assert_eq!(numbers(&settle(&client, &receipt, 1).await.1), [1, 0, 0, 10]);
    target.advance(&server, Duration::from_millis(4_999)).await;
    assert_eq!(client.post("/v1/acquire", body).await.1["retry_after_ms"], 1);
    target.advance(&server, Duration::from_millis(1)).await;
    assert_eq!(client.post("/v1/acquire", body).await.1["allowed"], true);
    server.end().await;
}
