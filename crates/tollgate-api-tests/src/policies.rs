//! Policies of a file: several limits, shadow mode, hashed keys, overrides.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{Client, ManualTarget, Running, SECRET, Setup, Target};

/// The limits of a policy are charged together or not at all.
pub async fn several_limits_are_charged_together_or_not_at_all(target: &impl ManualTarget) {
    let text = "
policies:
  api:
    limits:
      - {name: second, limit: 3 per 1s}
      - {name: day, limit: 5 per 1d}
";
    let server = target.start_at_now(Setup::of(text)).await;
    let client = Client::of(&server);
    let acquire = async |cost: u64| {
        client
            .post("/v1/acquire", &format!(r#"{{"policy":"api","key":"k","cost":{cost}}}"#))
            .await
            .1
    };
    let first = acquire(3).await;
    assert_eq!((&first["verdict"], &first["binding"]), (&json!("allowed"), &json!("second")));
    let denied = acquire(3).await;
    assert_eq!((&denied["verdict"], &denied["binding"]), (&json!("denied"), &json!("day")));
    assert_eq!((&denied["limit"], &denied["policy"]), (&json!(5), &json!("api")));
    let now_ms = denied["limits"][0]["reset_at_ms"].as_u64().unwrap() - 1_000;
    let (full_ms, wait_ms) = (now_ms + 3 * 17_280_000, 17_280_000);
    let standings = json!([
        {"name": "second", "policy": "api", "limit": 3, "remaining": 0,
         "reset_at_ms": now_ms + 1_000, "retry_after_ms": 1_000},
        {"name": "day", "policy": "api", "limit": 5, "remaining": 2,
         "reset_at_ms": full_ms, "retry_after_ms": wait_ms},
    ]);
    assert_eq!(denied["limits"], standings, "each limit has numbers of its own");
    assert_eq!(denied["retry_after_ms"], wait_ms, "those of the binding one");
    // The denial did not charge the limit `second`.
    target.advance(&server, Duration::from_secs(1)).await;
    let peek = client.post("/v1/forecast", r#"{"policy":"api","key":"k"}"#).await.1;
    assert_eq!((&peek["spendable_now"], &peek["limit"]), (&json!(2), &json!(3)));
    let gate = client.get("/v1/gate?policy=api&key=k&cost=3").await;
    let header = |name: &str| gate.headers()[name].to_str().unwrap();
    assert_eq!(header("ratelimit-policy"), r#""second";q=3;w=1, "day";q=5;w=86400"#);
    assert_eq!(header("ratelimit"), r#""second";r=3;t=0, "day";r=2;t=17279"#);
    assert_eq!(header("retry-after"), "17279");
    server.end().await;
}

/// A policy in shadow mode reports its denials and makes none.
pub async fn a_shadow_decides_and_never_denies(target: &impl Target) {
    let setup = Setup::of("policies: {s: {limit: 1 per 1d, shadow: true}}");
    let server = target.start(setup).await;
    let client = Client::of(&server);
    let body = r#"{"policy":"s","key":"k"}"#;
    let first = client.post("/v1/acquire", body).await.1;
    assert_eq!((&first["allowed"], first.get("shadow")), (&json!(true), None));
    let second = client.post("/v1/acquire", body).await.1;
    assert_eq!((&second["allowed"], &second["shadow"]), (&json!(true), &json!("denied")));
    server.end().await;
}

/// Headers of the gate have what other answers have in fields: a delay, the binding limit, a
/// verdict in shadow mode, and whether the answer is repeated.
pub async fn the_gate_has_a_header_for_each_field(target: &impl Target) {
    let policies = "policies:
  queue: {algorithm: leaky_bucket, rate: 1 per 1d, queue: 2}
  two: {limits: [{name: day, limit: 2 per 1d}, {name: week, limit: 9 per 7d}]}
  shadow: {limit: 1 per 1d, shadow: true}
";
    let server = target.start(Setup::of(policies)).await;
    let client = Client::of(&server);
    let names = ["delay-ms", "binding", "shadow", "replayed", "degraded"];
    let gate = async |query: &str| {
        let response = client.get(&format!("/v1/gate?key=k&{query}")).await;
        let header = |name: &str| {
            let value = response.headers().get(format!("tollgate-{name}"))?;
            value.to_str().ok().map(str::to_owned)
        };
        (response.status().as_u16(), names.map(header))
    };
    let none = [(); 5].map(|()| None);
    assert_eq!(gate("policy=queue&delay=header").await, (204, none.clone()));
    let (status, [delay, rest @ ..]) = gate("policy=queue&delay=header").await;
    let delay: u64 = delay.expect("a delay").parse().unwrap();
    assert!(status == 204 && delay <= 86_400_000 && delay > 86_340_000, "{delay}");
    assert_eq!(rest, [(); 4].map(|()| None));
    let day = Some("day".to_owned());
    let with = |binding: &Option<String>, shadow: Option<&str>, replayed: Option<&str>| {
        [None, binding.clone(), shadow.map(str::to_owned), replayed.map(str::to_owned), None]
    };
    for replayed in [None, Some("true")] {
        let answer = gate("policy=two&cost=2&request_id=i").await;
        assert_eq!(answer, (204, with(&day, None, replayed)));
    }
    assert_eq!(gate("policy=two").await, (429, with(&day, None, None)));
    assert_eq!(gate("policy=shadow").await, (204, none));
    assert_eq!(gate("policy=shadow").await, (204, with(&None, Some("denied"), None)));
    server.end().await;
}

/// A policy in shadow mode reports no delay.
pub async fn a_shadow_delays_no_request(target: &impl ManualTarget) {
    let text = |shadow| {
        format!(
            "policies: {{s: {{algorithm: leaky_bucket, rate: 1 per 1d, queue: 5, \
             shadow: {shadow}}}}}"
        )
    };
    for (shadow, delay_ms) in [(false, 86_400_000), (true, 0)] {
        let server = target.start_at_now(Setup::of(&text(shadow))).await;
        let client = Client::of(&server);
        let body = r#"{"policy":"s","key":"k"}"#;
        client.post("/v1/acquire", body).await;
        let second = client.post("/v1/acquire", body).await.1;
        assert_eq!((&second["allowed"], &second["delay_ms"]), (&json!(true), &json!(delay_ms)));
        server.end().await;
    }
}

/// Hashed keys share budgets, and an override finds its key nevertheless.
pub async fn keys_can_be_hashed_and_overridden(target: &impl Target) {
    let policies = "
policies:
  h: {limit: 2 per 1d, hash_keys: 1, overrides: {vip: {limit: 100 per 1d}}}
";
    let server = target.start(Setup { hash_secret: "s", ..Setup::of(policies) }).await;
    let client = Client::of(&server);
    let requests: Vec<Value> =
        (0..200).map(|index| json!({"policy": "h", "key": format!("user:{index}")})).collect();
    let body = json!({ "requests": requests }).to_string();
    let reply = client.post("/v1/acquire_many", &body).await.1;
    let decisions = reply["decisions"].as_array().unwrap();
    let allowed = decisions.iter().filter(|one| one["allowed"] == json!(true)).count();
    // One bit makes two keys: all subjects share two budgets.
    assert_eq!((decisions.len(), allowed), (200, 4), "{reply}");
    let vip = client.post("/v1/peek", r#"{"policy":"h","key":"vip"}"#).await.1;
    assert_eq!((&vip["limit"], &vip["remaining"]), (&json!(100), &json!(98)));
    server.end().await;
}

/// The policies in force are listed in numbers and in words, without the keys that have limits of
/// their own.
pub async fn the_policies_in_force_are_listed(target: &impl Target) {
    let text = "
policies:
  default: {limit: 100 per 1m, burst: 20}
  api:
    on_outage: closed
    refunds: off
    hash_keys: 64
    limits:
      - {name: second, limit: 10 per 1s}
      - {name: day, algorithm: fixed_window, limit: 10_000 per 1d}
    overrides:
      ada: {limits: [{name: second, limit: 7 per 1s}]}
      bob: {limits: [{name: second, limit: 7 per 1s}]}
";
    let setup = Setup { hash_secret: SECRET, ..Setup::of(text) };
    let server = target.start(setup).await;
    let client = Client::of(&server);
    let response = client.get("/v1/policies").await;
    assert_eq!(response.headers()["cache-control"], "no-store");
    let listed = response.text().await.unwrap();
    assert!(!listed.contains("ada") && !listed.contains("bob"), "{listed}");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let [api, default] = listed["policies"].as_array().unwrap().as_slice() else {
        panic!("{listed}");
    };
    let names = [&api["policy"], &default["policy"]];
    assert_eq!(names, [&json!("api"), &json!("default")]);
    assert_eq!([&api["overrides"], &default["overrides"]], [&json!(2), &json!(0)]);
    assert_eq!([&api["refunds"], &api["shadow"]], [&json!("off"), &json!(false)]);
    let day = &api["limits"][1];
    assert_eq!([&day["name"], &day["algorithm"]], [&json!("day"), &json!("fixed_window")]);
    assert_eq!([&day["limit"], &day["on_outage"]], [&json!(10_000), &json!("closed")]);
    let written = json!({
        "limits": [
            {"name": "second", "limit": "10 per 1s"},
            {"name": "day", "algorithm": "fixed_window", "limit": "10000 per 1d"},
        ],
        "on_outage": "closed",
        "refunds": "off",
        "hash_keys": 64,
        "overrides": [{
            "limits": [
                {"name": "second", "limit": "7 per 1s"},
                {"name": "day", "algorithm": "fixed_window", "limit": "10000 per 1d"},
            ],
            "keys": 2,
        }],
    });
    assert_eq!(api["written"], written);
    let written = json!({"limit": "100 per 1m", "burst": 20, "on_outage": "open"});
    assert_eq!(default["written"], written);
    server.end().await;
}
