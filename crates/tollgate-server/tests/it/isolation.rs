//! Callers that bring their own limits (`CL.THROTTLE`) are bounded, and change nothing for the keys
//! of policies.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::ManualClock;
use tollgate_server::{Config, Server};

use crate::support::{NOW, Resp, Running};

/// A server with a configuration file.
async fn server(file: &str) -> Running {
    let any = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let mut config = Config::of_text(&[], |_| None, Some(("t.yaml", file))).unwrap();
    (config.http, config.grpc, config.resp) = (any, any, any);
    Running::of(Server::bind(config).await.unwrap())
}

/// How many of 500 keys of the policy `default` pass.
async fn passing(client: &mut Resp, name: &str) -> usize {
    let mut passed = 0;
    for key in 0..500 {
        let [allowed, ..] = client.five(&["TG.ACQUIRE", "default", &format!("{name}:{key}")]).await;
        passed += usize::from(allowed == 1);
    }
    passed
}

#[tokio::test]
async fn a_flood_of_limits_in_requests_changes_nothing_for_the_keys_of_a_policy() {
    let server = server("default_refill_rate: 0.001\ncl_throttle_max_keys: 1000\n").await;
    let mut client = server.resp().await;
    assert_eq!(passing(&mut client, "established").await, 500);
    let mut flood = server.resp().await;
    let mut commands = String::new();
    for key in 0..20_000 {
        let (key, count) = (key.to_string(), (1 + key % 5_000).to_string());
        commands += &Resp::command(&["CL.THROTTLE", &key, "0", &count, "2592000"]);
    }
    commands += &Resp::command(&["QUIT"]);
    let (mut read, mut write) = flood.0.split();
    let sent = tokio::io::AsyncWriteExt::write_all(&mut write, commands.as_bytes());
    let mut answers = Vec::new();
    let received = tokio::io::AsyncReadExt::read_to_end(&mut read, &mut answers);
    let (sent, received) = tokio::join!(sent, received);
    sent.unwrap();
    received.unwrap();
    assert!(String::from_utf8(answers).unwrap().matches("*5\r\n").count() == 20_000);
    assert_eq!(passing(&mut client, "established").await, 500);
    assert_eq!(passing(&mut client, "newcomer").await, 500);
    let [_, _, remaining, ..] = client.five(&["TG.ACQUIRE", "default", "established:0"]).await;
    assert_eq!(remaining, 10 - 3, "nothing was forgotten");
    server.end().await;
}

#[tokio::test]
async fn quotas_in_requests_deny_no_key_of_a_policy_whose_quota_is_changed() {
    let of_file = |limit: &str| {
        let file = format!("policies: {{p: {{limit: {limit} per 1d}}}}\n");
        Config::of_text(&[], |_| None, Some(("t.yaml", &file))).unwrap()
    };
    let any = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let mut config = of_file("100");
    (config.http, config.grpc, config.resp) = (any, any, any);
    let server = Server::bind(config).await.unwrap();
    let engine = server.engine();
    let server = Running::of(server);
    let mut client = server.resp().await;
    for count in 1..=4_200 {
        let (key, count) = (format!("caller:{count}"), count.to_string());
        assert_eq!(client.five(&["CL.THROTTLE", &key, "9", &count, "86400"]).await[0], 0);
    }
    for key in 0..100 {
        let [allowed, _, left, ..] = client.five(&["TG.ACQUIRE", "p", &key.to_string()]).await;
        assert_eq!((allowed, left), (1, 99));
    }
    engine.replace_policies(of_file("200").policies);
    for key in 0..100 {
        let [allowed, _, left, ..] = client.five(&["TG.ACQUIRE", "p", &key.to_string()]).await;
        assert_eq!((allowed, left), (1, 198), "key {key}");
    }
    server.end().await;
}

#[tokio::test]
async fn the_period_of_a_limit_in_a_request_is_bounded() {
    let server = server("").await;
    let mut client = server.resp().await;
    let century = client.call(&["CL.THROTTLE", "k", "0", "1", "4007664000"]).await;
    assert!(century.contains("period") && century.contains("up to 2592000"), "{century}");
    let [limited, ..] = client.five(&["CL.THROTTLE", "k", "0", "1", "2592000"]).await;
    assert_eq!(limited, 0);
    server.end().await;
}

#[tokio::test]
async fn limits_in_requests_can_be_switched_off() {
    let server = server("cl_throttle: false").await;
    let mut client = server.resp().await;
    let refused = client.call(&["CL.THROTTLE", "k", "0", "1", "60"]).await;
    assert!(refused.contains("switched off"), "{refused}");
    assert_eq!(client.five(&["TG.ACQUIRE", "default", "k"]).await[0], 1);
    server.end().await;
}

#[tokio::test]
async fn a_key_of_a_limit_in_a_request_can_be_reset() {
    let server = server("").await;
    let mut client = server.resp().await;
    let words = ["CL.THROTTLE", "ada", "0", "1", "86400"];
    assert_eq!(client.five(&words).await[0], 0);
    assert_eq!(client.five(&words).await[0], 1);
    let (status, _) = server.post("/v1/reset", r#"{"policy":"cl.throttle","key":"ada"}"#).await;
    assert_eq!(status, 200);
    assert_eq!(client.five(&words).await[0], 0);
    let (status, _) = server.post("/v1/acquire", r#"{"policy":"cl.throttle","key":"ada"}"#).await;
    assert_eq!(status, 404, "it is no policy");
    server.end().await;
}

#[test]
fn bounds_of_a_policy_are_read_and_checked() {
    let of_file = |fields: &str| {
        let file = format!("policies:\n  a: {{limit: 1 per 1s, {fields}}}\n");
        Config::of_text(&[], |_| None, Some(("t.yaml", &file))).map(drop)
    };
    of_file("max_keys: 10_000, when_full: admit").unwrap();
    of_file("request_ids: {keep: 1h, max: 1, when_full: refuse}").unwrap();
    let cases = [
        ("max_keys: 0", "max_keys: 0 is out of range; accepted: 1 to"),
        ("request_ids: {max: 0}", "request_ids.max: 0 is out of range; accepted: 1 and more"),
        ("request_ids: {keep: 1ms}", "request_ids.keep: 1000 us are out of range; accepted: 1s to"),
        ("request_ids: {kept: 1h}", "did you mean \"keep\"?"),
        ("request_ids: 5", "is a text; write fields, each as `name: value`"),
        ("when_full: maybe", "when_full: \"maybe\" is not accepted; accepted: protect, admit"),
        ("request_ids: {when_full: protect}", "accepted: forget_oldest, refuse"),
    ];
    for (fields, expected) in cases {
        let wrong = of_file(fields).unwrap_err().to_string();
        assert!(wrong.contains(expected), "{wrong}");
    }
}

#[test]
fn a_bound_on_request_ids_is_refused_where_the_store_cannot_keep_it() {
    let of = |store: &str, section: &str, of_policy: &str| {
        let policy = format!("  p: {{limit: 1 per 1s{of_policy}}}");
        let file = format!("store: {store}\n{section}\npolicies:\n{policy}\n");
        let config = Config::of_text(&[], |_| None, Some(("t.yaml", &file)));
        config.map(drop).map_err(|errors| errors.to_string())
    };
    let keep = ", request_ids: {keep: 1h}";
    let stores = [
        ("redis://127.0.0.1:1", false),
        ("redis-cluster://127.0.0.1:1", false),
        ("dynamodb://limits?region=eu-central-1", false),
        ("postgres://127.0.0.1:1/t", true),
        ("denokv+http://token@127.0.0.1:1", false),
        ("'sqlite:./t.db'", true),
        ("'memory:'", true),
    ];
    for (store, is_accepted) in stores {
        of(store, "", keep).unwrap();
        // The default, where there is a bound.
        of(store, "request_ids: {when_full: forget_oldest}", "").unwrap();
        let wrong = [
            ("", ", request_ids: {max: 5}", "policies.p.request_ids.max: this store cannot bound"),
            ("", ", request_ids: {when_full: refuse}", "policies.p.request_ids.when_full: this"),
            ("request_ids: {max: 5}", "", "request_ids.max: this store cannot bound"),
        ];
        for (section, of_policy, expected) in wrong {
            match of(store, section, of_policy) {
                Ok(()) => assert!(is_accepted, "{store}: {section}{of_policy}"),
                Err(wrong) => assert!(!is_accepted && wrong.contains(expected), "{wrong}"),
            }
        }
    }
}

#[tokio::test]
async fn bounds_of_the_memory_store_are_in_its_address() {
    for store in ["memory:", "memory:?max_keys=10&max_request_ids=10&memory=1048576"] {
        tollgate_server::store::open(store, None).await.unwrap();
    }
    for store in ["memory:x", "memory:?keys=1", "memory:?max_keys=many", "memory:?max_keys=0"] {
        assert!(tollgate_server::store::open(store, None).await.is_err(), "{store}");
    }
}

/// The settings of request ids, of the file and of a policy.
#[tokio::test]
async fn request_ids_and_receipts_are_kept_as_long_as_the_policy_says() {
    let file = "request_ids: {keep: 1h}
policies:
  short: {limit: 100 per 30d, request_ids: {keep: 10s, max: 64}}
  long: {limit: 100 per 30d}
";
    let config = Config::of_text(&[], |_| None, Some(("t.yaml", file))).unwrap();
    let clock = ManualClock::at(NOW);
    let server = Running::with_clock(config.policies, &clock).await;
    for (policy, keep) in [("short", 10), ("long", 3_600), ("default", 3_600)] {
        let acquire = async || {
            let body = json!({"policy": policy, "key": "k", "request_id": "id"}).to_string();
            server.post("/v1/acquire", &body).await.1
        };
        let settle = async |receipt: &Value| {
            let body = json!({"receipt": receipt, "cost": 2}).to_string();
            server.post("/v1/settle", &body).await
        };
        let first = acquire().await;
        let receipt = &first["receipt"];
        assert_eq!((&first["allowed"], &first["replayed"]), (&json!(true), &Value::Null));
        assert_eq!(settle(receipt).await.1["charged"], 1, "{policy}");
        clock.advance(Duration::from_millis(keep * 1_000 - 1));
        assert_eq!(acquire().await["replayed"], true, "{policy}");
        assert_eq!(settle(receipt).await.1["replayed"], true, "{policy}");
        clock.advance(Duration::from_secs(2));
        assert_eq!(acquire().await["replayed"], Value::Null, "{policy}");
        // It expired before the record of its settlement.
        let (status, refused) = settle(receipt).await;
        assert_eq!((status, &refused["field"]), (400, &json!("receipt")), "{refused}");
    }
    let metrics = server.metrics().await;
    assert!(metrics.contains("tollgate_store_forgotten_request_ids_total 0"), "{metrics}");
    for id in 0..97 {
        let key = format!("key-{id}");
        let body = json!({"policy": "short", "key": key, "request_id": "id"}).to_string();
        assert_eq!(server.post("/v1/acquire", &body).await.1["allowed"], true);
    }
    let metrics = server.metrics().await;
    let line = metrics.lines().find(|line| line.starts_with("tollgate_store_forgotten_request"));
    let count: u64 = line.unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    assert_eq!(count, 33, "64 are left");
    server.end().await;
}
