//! Several keys in one request: all or nothing, in order, once under a request id.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{ADMIN, Client, ManualTarget, Running, SECRET, Setup, Target};

const POLICIES: &str = "
policies:
  user: {limit: 10 per 1d}
  address: {limit: 4 per 1d}
  two: {limits: [{name: day, limit: 9 per 1d}, {name: week, limit: 20 per 7d}]}
  shadow: {limit: 2 per 1d, shadow: true}
  shaped: {algorithm: leaky_bucket, rate: 1 per 1d, queue: 3}
";

async fn charge(client: &Client, path: &str, charges: &[(&str, &str, u64)]) -> (u16, Value) {
    let charges: Vec<Value> = charges
        .iter()
        .map(|(policy, key, cost)| json!({"policy": policy, "key": key, "cost": cost}))
        .collect();
    client.post(path, &json!({ "charges": charges }).to_string()).await
}

/// The answers to two hundred requests at once.
async fn two_hundred(client: &Client, body: &Value) -> Vec<(u16, Value)> {
    let mut requests = JoinSet::new();
    for _ in 0..200 {
        let (client, body) = (client.clone(), body.to_string());
        requests.spawn(async move { client.post("/v1/acquire", &body).await });
    }
    requests.join_all().await
}

async fn remaining(client: &Client, policy: &str, key: &str) -> u64 {
    let body = json!({"policy": policy, "key": key}).to_string();
    client.post("/v1/peek", &body).await.1["remaining"].as_u64().unwrap()
}

/// A denial of one key leaves the others uncharged, and the answer is that of the binding limit.
pub async fn several_keys_are_charged_together_or_not_at_all(target: &impl Target) {
    let server = target.start(Setup::of(POLICIES)).await;
    let client = Client::of(&server);
    let both = [("user", "ada", 3), ("address", "192.0.2.7", 3)];
    let peeked = charge(&client, "/v1/peek", &both).await.1;
    assert_eq!((&peeked["allowed"], &peeked["remaining"]), (&json!(true), &json!(4)));
    let (status, allowed) = charge(&client, "/v1/acquire", &both).await;
    assert_eq!(
        (status, &allowed["verdict"], &allowed["remaining"]),
        (200, &json!("allowed"), &json!(1))
    );
    assert_eq!((&allowed["policy"], &allowed["binding"]), (&json!("address"), &json!("address")));
    let denied = charge(&client, "/v1/acquire", &both).await.1;
    assert_eq!((&denied["verdict"], &denied["policy"]), (&json!("denied"), &json!("address")));
    assert_eq!((&denied["limit"], &denied["remaining"]), (&json!(4), &json!(1)));
    let standings: Vec<Value> = denied["limits"].as_array().unwrap().clone();
    let of = |one: &Value| (one["policy"].clone(), one["remaining"].clone());
    let expected = [(json!("user"), json!(7)), (json!("address"), json!(1))];
    assert_eq!(standings.iter().map(of).collect::<Vec<_>>(), expected);
    assert_eq!(standings[0]["retry_after_ms"], 0, "the user may go on");
    assert_eq!(standings[1]["retry_after_ms"], denied["retry_after_ms"]);
    assert_eq!(remaining(&client, "user", "ada").await, 7, "the denial charged nothing");
    let never = charge(&client, "/v1/acquire", &[("user", "ada", 1), ("address", "x", 5)]).await.1;
    assert_eq!((&never["verdict"], &never["retry_after_ms"]), (&json!("never"), &json!(null)));
    let forecast = charge(&client, "/v1/forecast", &both).await.1;
    assert_eq!((&forecast["spendable_now"], &forecast["limit"]), (&json!(1), &json!(4)));
    let limits = charge(&client, "/v1/limits", &[("two", "a", 1), ("shadow", "b", 1)]).await.1;
    let named =
        |limit: &Value| format!("{}.{} {}", limit["policy"], limit["name"], limit["shadow"]);
    let named: Vec<String> = limits["limits"].as_array().unwrap().iter().map(named).collect();
    let expected = [r#""two"."day" false"#, r#""two"."week" false"#, r#""shadow"."shadow" true"#];
    assert_eq!((named, &limits["shadow"]), (expected.map(str::to_owned).to_vec(), &json!(false)));
    server.end().await;
}

/// The same key twice is charged in order, and both or none.
pub async fn a_key_that_is_named_twice_is_charged_twice(target: &impl Target) {
    let server = target.start(Setup::of(POLICIES)).await;
    let client = Client::of(&server);
    let twice = [("user", "k", 6), ("user", "k", 5)];
    for path in ["/v1/peek", "/v1/acquire"] {
        let answer = charge(&client, path, &twice).await.1;
        assert_eq!(
            (&answer["verdict"], &answer["remaining"]),
            (&json!("never"), &json!(10)),
            "{path}"
        );
    }
    let twice = [("user", "k", 6), ("user", "k", 4)];
    let peeked = charge(&client, "/v1/peek", &twice).await.1;
    assert_eq!((&peeked["allowed"], &peeked["remaining"]), (&json!(true), &json!(10)));
    let allowed = charge(&client, "/v1/acquire", &twice).await.1;
    let left = |one: usize| allowed["limits"][one]["remaining"].clone();
    assert_eq!((&allowed["allowed"], left(0), left(1)), (&json!(true), json!(4), json!(0)));
    let peeked = charge(&client, "/v1/peek", &[("user", "k", 1), ("user", "k", 1)]).await.1;
    assert_eq!((&peeked["verdict"], &peeked["remaining"]), (&json!("denied"), &json!(0)));
    server.end().await;
}

/// A request id is charged once, and its receipt gives back every charge once.
pub async fn several_keys_are_charged_once_and_given_back_once(target: &impl Target) {
    let setup = Setup { receipt_secret: SECRET, admin_tokens: &[ADMIN], ..Setup::of(POLICIES) };
    let server = target.start(setup).await;
    let client = Client::of(&server).with_token(ADMIN);
    let body = json!({"request_id": "i", "charges": [
        {"policy": "user", "key": "ada", "cost": 3}, {"policy": "two", "key": "ada", "cost": 2},
        {"policy": "address", "key": "a"}]});
    let mut first = client.post("/v1/acquire", &body.to_string()).await;
    assert_eq!((first.0, &first.1["allowed"]), (200, &json!(true)), "{first:?}");
    first.1["replayed"] = json!(true);
    assert_eq!(client.post("/v1/acquire", &body.to_string()).await, first);
    assert_eq!(remaining(&client, "user", "ada").await, 7);
    let mut other = body.clone();
    other["charges"][1]["cost"] = json!(1);
    let (status, problem) = client.post("/v1/acquire", &other.to_string()).await;
    assert_eq!((status, &problem["code"]), (409, &json!("idempotency_conflict")));
    let receipt = json!({"receipt": first.1["receipt"]}).to_string();
    for replayed in [json!(null), json!(true)] {
        let (status, refund) = client.post("/v1/refund", &receipt).await;
        assert_eq!((status, &refund["replayed"]), (200, &replayed), "{refund}");
        let units: Vec<u64> = refund["limits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|limit| limit["refunded"].as_u64().unwrap())
            .collect();
        assert_eq!(units, [3, 2, 2, 1]);
    }
    for (policy, key, full) in [("user", "ada", 10), ("two", "ada", 9), ("address", "a", 4)] {
        assert_eq!(remaining(&client, policy, key).await, full, "{policy}");
    }
    server.end().await;
}

/// A policy in shadow mode neither denies the others nor is charged for what they deny.
pub async fn a_shadow_among_several_is_decided_apart(target: &impl Target) {
    let server = target.start(Setup::of(POLICIES)).await;
    let client = Client::of(&server);
    let three = [("shadow", "s", 1), ("address", "a", 1), ("shadow", "s", 1)];
    let first = charge(&client, "/v1/acquire", &three).await.1;
    assert_eq!((&first["allowed"], first.get("shadow")), (&json!(true), None), "{first}");
    assert_eq!(first["limits"].as_array().unwrap().len(), 3);
    let second = charge(&client, "/v1/acquire", &three).await.1;
    assert_eq!((&second["allowed"], &second["shadow"]), (&json!(true), &json!("denied")));
    assert_eq!((&second["policy"], &second["remaining"]), (&json!("address"), &json!(2)));
    // What is denied is not charged to the policy in shadow mode, and what only that one would deny
    // is charged to the others.
    let denied = [("address", "a", 3), ("shadow", "t", 1)];
    let denied = charge(&client, "/v1/acquire", &denied).await.1;
    assert_eq!((&denied["verdict"], &denied["policy"]), (&json!("denied"), &json!("address")));
    assert_eq!(remaining(&client, "shadow", "t").await, 2);
    assert_eq!(remaining(&client, "shadow", "s").await, 0);
    assert_eq!(remaining(&client, "address", "a").await, 2);
    // In a batch too.
    let requests = json!({"requests": [
        {"charges": [{"policy": "shadow", "key": "s"}, {"policy": "address", "key": "a"}]},
        {"charges": [{"policy": "shadow", "key": "u"}]},
    ]});
    let batch = client.post("/v1/acquire_many", &requests.to_string()).await.1;
    let shadows: Vec<&Value> = (0..2).map(|one| &batch["decisions"][one]["shadow"]).collect();
    assert_eq!(shadows, [&json!("denied"), &json!(null)], "{batch}");
    assert_eq!(remaining(&client, "address", "a").await, 1);
    server.end().await;
}

/// An error names the element, also within a batch.
pub async fn errors_of_charges_name_the_element(target: &impl Target) {
    let server = target.start(Setup::of(POLICIES)).await;
    let client = Client::of(&server);
    let many = vec![r#"{"key":"k"}"#; 17].join(",");
    let nine = [r#"{"policy":"two","key":"k"}"#; 9].join(",");
    let cases = [
        ("[]".to_owned(), 400, "charges"),
        ("3".to_owned(), 400, "charges"),
        ("[3]".to_owned(), 400, "charges[0]"),
        (r#"[{"key":"k"},{}]"#.to_owned(), 400, "charges[1].key"),
        (r#"[{"key":"k"},{"key":"k","cost":0}]"#.to_owned(), 400, "charges[1].cost"),
        (r#"[{"key":"k"},{"key":"k","policy":"x"}]"#.to_owned(), 404, "charges[1].policy"),
        (r#"[{"key":"k"},{"key":""}]"#.to_owned(), 400, "charges[1].key"),
        (r#"[{"key":"k","request_id":"i"}]"#.to_owned(), 400, "charges[0].request_id"),
        (format!("[{many}]"), 400, "charges"),
        (format!("[{nine}]"), 400, "charges"),
    ];
    for (charges, status, field) in &cases {
        let body = format!(r#"{{"charges":{charges}}}"#);
        for path in ["/v1/acquire", "/v1/peek", "/v1/forecast", "/v1/limits"] {
            let (found, problem) = client.post(path, &body).await;
            assert_eq!((found, &problem["field"]), (*status, &json!(field)), "{path} {body}");
        }
        let batch = format!(r#"{{"requests":[{{"key":"k"}},{body}]}}"#);
        let batch = client.post("/v1/acquire_many", &batch).await.1;
        let error = &batch["decisions"][1]["error"];
        assert_eq!(error["field"], format!("requests[1].{field}"), "{body}");
    }
    for beside in [r#""key":"k""#, r#""policy":"user""#, r#""cost":1"#] {
        let body = format!(r#"{{"charges":[{{"key":"k"}}],{beside}}}"#);
        let (status, problem) = client.post("/v1/acquire", &body).await;
        assert_eq!((status, &problem["field"]), (400, &json!("charges")), "{body}");
    }
    server.end().await;
}

/// Of two hundred requests at once, those that one key denies leave the other uncharged.
pub async fn two_hundred_at_once_leave_the_other_key_uncharged(target: &impl Target) {
    let policies = "policies: {user: {limit: 1000 per 1d}, address: {limit: 50 per 1d}}";
    let server = target.start(Setup::of(policies)).await;
    let client = Client::of(&server);
    let both = json!({"charges": [{"policy": "user", "key": "ada"},
                                  {"policy": "address", "key": "a"}]});
    let answers = two_hundred(&client, &both).await;
    let mut allowed = 0;
    for (status, answer) in &answers {
        // A host may refuse what it cannot decide in time; then nothing is charged.
        assert!(*status == 200 || *status == 503, "{status} {answer}");
        assert!(answer.get("degraded").is_none(), "{answer}");
        allowed += u64::from(answer["allowed"] == json!(true));
    }
    assert!(allowed <= 50, "{allowed}");
    if answers.iter().all(|(status, _)| *status == 200) {
        assert_eq!(allowed, 50);
    }
    assert_eq!(remaining(&client, "user", "ada").await, 1_000 - allowed);
    assert_eq!(remaining(&client, "address", "a").await, 50 - allowed);
    server.end().await;
}

/// A range takes what there is, and says how much.
pub async fn a_range_takes_what_there_is(target: &impl Target) {
    let server = target.start(Setup { receipt_secret: SECRET, ..Setup::of(POLICIES) }).await;
    let client = Client::of(&server);
    let range = async |path: &str, min: u64, max: u64, id: Value| {
        let mut body = json!({"policy": "user", "key": "k", "cost": {"min": min, "max": max}});
        if id.is_string() {
            body["request_id"] = id;
        }
        client.post(path, &body.to_string()).await.1
    };
    let first = range("/v1/acquire", 2, 7, json!("i")).await;
    assert_eq!((&first["granted"], &first["remaining"]), (&json!(7), &json!(3)), "{first}");
    assert_eq!(first["limits"][0]["granted"], 7);
    let replay = range("/v1/acquire", 2, 7, json!("i")).await;
    assert_eq!((&replay["granted"], &replay["replayed"]), (&json!(7), &json!(true)));
    let peeked = range("/v1/peek", 1, 100, json!(null)).await;
    assert_eq!((&peeked["granted"], &peeked["remaining"]), (&json!(3), &json!(3)));
    let denied = range("/v1/acquire", 4, 100, json!(null)).await;
    assert_eq!((&denied["verdict"], &denied["granted"]), (&json!("denied"), &json!(0)));
    let rest = range("/v1/acquire", 3, 100, json!(null)).await;
    assert_eq!((&rest["granted"], &rest["remaining"]), (&json!(3), &json!(0)));
    // The receipt is for what was granted.
    let receipt = json!({"receipt": first["receipt"]}).to_string();
    assert_eq!(client.post("/v1/refund", &receipt).await.1["refunded"], 7);
    // Several keys are granted the same, each as far as its own range goes.
    let body = json!({"charges": [
        {"policy": "user", "key": "k", "cost": {"min": 1, "max": 9}},
        {"policy": "address", "key": "k", "cost": {"max": 3}},
        {"policy": "shadow", "key": "k", "cost": {"max": 9}},
    ]});
    let several = client.post("/v1/acquire", &body.to_string()).await.1;
    assert_eq!(
        (&several["granted"], &several["shadow"]),
        (&json!(3), &json!("never")),
        "{several}"
    );
    assert_eq!(several["limits"][0]["granted"], 7);
    assert_eq!(remaining(&client, "user", "k").await, 0);
    assert_eq!(remaining(&client, "address", "k").await, 1);
    // A policy in shadow mode cuts no range.
    let body = r#"{"policy":"shadow","key":"l","cost":{"max":9}}"#;
    let shadow = client.post("/v1/acquire", body).await.1;
    assert_eq!((&shadow["granted"], &shadow["limits"][0]["granted"]), (&json!(9), &json!(2)));
    server.end().await;
}

/// An error of a range names its bound.
pub async fn errors_of_ranges_name_the_bound(target: &impl Target) {
    let server = target.start(Setup::of(POLICIES)).await;
    let client = Client::of(&server);
    for (cost, field) in [
        (r#"{"min":3,"max":2}"#, "cost.min"),
        (r#"{"min":0,"max":2}"#, "cost.min"),
        (r#"{"min":1,"max":0}"#, "cost.max"),
        (r#"{"min":1}"#, "cost.max"),
        (r#"{"min":"1","max":2}"#, "cost.min"),
        (r#"{"mix":1,"max":2}"#, "cost.mix"),
    ] {
        for (body, path) in [
            (format!(r#"{{"key":"k","cost":{cost}}}"#), field.to_owned()),
            (
                format!(r#"{{"charges":[{{"key":"k","cost":{cost}}}]}}"#),
                format!("charges[0].{field}"),
            ),
        ] {
            let (status, problem) = client.post("/v1/acquire", &body).await;
            assert_eq!((status, &problem["field"]), (400, &json!(path)), "{body}");
        }
    }
    server.end().await;
}

/// Two hundred ranges at once get exactly what there is.
pub async fn ranges_at_once_get_exactly_what_there_is(target: &impl Target) {
    let server = target.start(Setup::of("policies: {p: {limit: 777 per 7d}}")).await;
    let client = Client::of(&server);
    let body = json!({"policy": "p", "key": "k", "cost": {"min": 1, "max": 20}});
    let answers = two_hundred(&client, &body).await;
    let granted: u64 = answers.iter().filter_map(|(_, answer)| answer["granted"].as_u64()).sum();
    assert_eq!(granted, 777 - remaining(&client, "p", "k").await);
    if answers.iter().all(|(status, _)| *status == 200) {
        assert_eq!(granted, 777);
    }
    server.end().await;
}

/// The times of several keys are those of the binding limit, exact to the millisecond.
pub async fn several_keys_pass_after_the_wait_and_not_earlier(target: &impl ManualTarget) {
    let policies = "policies: {slow: {limit: 2 per 10s}, fast: {limit: 5 per 10s}}";
    let server = target.start_at_now(Setup::of(policies)).await;
    let client = Client::of(&server);
    let both = [("fast", "a", 3), ("slow", "b", 2)];
    charge(&client, "/v1/acquire", &both).await;
    let denied = charge(&client, "/v1/acquire", &both).await.1;
    assert_eq!((&denied["policy"], &denied["retry_after_ms"]), (&json!("slow"), &json!(10_000)));
    let waits: Vec<&Value> =
        denied["limits"].as_array().unwrap().iter().map(|one| &one["retry_after_ms"]).collect();
    assert_eq!(waits, [&json!(2_000), &json!(10_000)]);
    target.advance(&server, Duration::from_millis(9_999)).await;
    assert_eq!(charge(&client, "/v1/acquire", &both).await.1["verdict"], "denied");
    target.advance(&server, Duration::from_millis(1)).await;
    assert_eq!(charge(&client, "/v1/acquire", &both).await.1["verdict"], "allowed");
    server.end().await;
}
