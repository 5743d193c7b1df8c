//! Metrics, and that alerts, dashboard and documentation name only metrics that exist.

use std::time::Duration;

use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::config::Setting;
use tollgate_server::{Config, Server};
use tollgate_service::config::policies_from_yaml;
use tollgate_test_servers::{PgVersion, Postgres, Redis};

use crate::support::{Resp, Running, config, pages, slow};

/// The names of metrics in a text.
fn names(text: &str) -> Vec<&str> {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !letter(c)).filter(|word| word.starts_with("tollgate_"));
    words.collect()
}

#[tokio::test]
async fn decisions_errors_and_latencies_are_counted_without_keys() {
    let server = Running::with(slow()).await;
    for body in
        [r#"{"key":"ada"}"#, r#"{"key":"ada","cost":10}"#, r#"{"key":"ada","cost":11}"#, "{}"]
    {
        server.post("/v1/acquire", body).await;
    }
    server.post("/v1/acquire", r#"{"key":"ada","policy":"made-up"}"#).await;
    for _ in 0..3 {
        let id = ["TG.ACQUIRE", "default", "zoe", "1", "id"];
        server.resp().await.reply(&id).await;
    }
    server.resp().await.five(&["CL.THROTTLE", "ada", "1", "1", "1"]).await;
    let text = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
    let decision = |policy: &str, verdict: &str| {
        let labels = format!(r#"policy="{policy}",verdict="{verdict}",degraded="no",shadow="no""#);
        let count = if (policy, verdict) == ("default", "allowed") { 4 } else { 1 };
        format!("tollgate_decisions_total{{{labels}}} {count}\n")
    };
    assert!(text.contains("tollgate_replays_total{policy=\"default\"} 2\n"), "{text}");
    for verdict in ["allowed", "denied", "never"] {
        assert!(text.contains(&decision("default", verdict)), "{verdict}: {text}");
    }
    assert!(text.contains(&decision("cl.throttle", "allowed")), "{text}");
    assert!(text.contains(r#"tollgate_errors_total{code="unknown_policy",policy=""} 1"#), "{text}");
    assert!(
        text.contains(r#"tollgate_request_duration_seconds_count{protocol="http"} 5"#),
        "{text}"
    );
    assert!(
        text.contains(r#"tollgate_request_duration_seconds_count{protocol="resp"} 4"#),
        "{text}"
    );
    let keys = r#"tollgate_memory_keys{prefix="tollgate",policy="default"} 2"#;
    assert!(text.contains(keys), "{text}");
    let max = r#"tollgate_memory_max_keys{prefix="tollgate",policy="cl.throttle"} 100000"#;
    assert!(text.contains(max), "{text}");
    assert!(!text.contains("ada") && !text.contains("zoe") && !text.contains("made-up"), "{text}");
    assert!(text.ends_with("# EOF\n"));
    server.end().await;
}

/// The metrics and labels that alerts, dashboard and documentation use.
fn documented() -> (Vec<&'static str>, Vec<&'static str>) {
    let files = [
        include_str!("../../../../deploy/prometheus/alerts.yaml"),
        include_str!("../../../../deploy/grafana/dashboard.json"),
        include_str!("../../../../docs/configuration.md"),
    ];
    let metrics = files.iter().flat_map(|file| names(file)).collect();
    let grouped = files.iter().flat_map(|file| file.split("by (").skip(1));
    let grouped = grouped.flat_map(|rest| rest.split(')').next().unwrap().split(", "));
    let chosen = files.iter().flat_map(|file| file.split("_total{").skip(1));
    let chosen = chosen.map(|rest| rest.split(['=', '!']).next().unwrap());
    (metrics, grouped.chain(chosen).collect())
}

/// The values of labels that alerts and dashboard choose: a code or a result that does not exist
/// would never raise an alert.
fn chosen_values() -> Vec<(String, String)> {
    let alerts = include_str!("../../../../deploy/prometheus/alerts.yaml");
    let dashboard = include_str!("../../../../deploy/grafana/dashboard.json");
    let texts = [alerts.to_owned(), dashboard.replace("\\\"", "\"")];
    let mut chosen = Vec::new();
    for rest in texts.iter().flat_map(|text| text.split("_total{").skip(1)) {
        let (label, rest) = rest.split_once(['=', '!']).unwrap();
        let values = rest.split('"').nth(1).unwrap().split('|');
        chosen.extend(values.map(|value| (label.to_owned(), value.to_owned())));
    }
    chosen
}

#[test]
fn every_alert_and_every_refusal_has_an_entry_in_the_runbook() {
    let alerts = include_str!("../../../../deploy/prometheus/alerts.yaml");
    let runbook = include_str!("../../../../docs/operating.md");
    let has = |name: &str| runbook.lines().any(|line| line == format!("### {name}"));
    let names = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let missing: Vec<&str> = names.filter(|name| !has(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let codes = chosen_values().into_iter().filter(|(label, _)| label == "code");
    let missing: Vec<String> = codes.map(|(_, code)| code).filter(|code| !has(code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A series that begins with its first event has no rate, and a short first outage no alert.
#[tokio::test]
async fn series_that_raise_alerts_begin_at_zero_also_after_a_reload() {
    let server = Server::bind(config()).await.unwrap();
    let engine = server.engine();
    let server = Running::of(server);
    let of = |policy: &str| {
        let error = format!(r#"tollgate_errors_total{{code="store_full",policy="{policy}"}} 0"#);
        let labels = r#"verdict="allowed",degraded="open",shadow="no""#;
        let degraded = format!(r#"tollgate_decisions_total{{policy="{policy}",{labels}}} 0"#);
        [error, degraded]
    };
    let text = server.metrics().await;
    for series in of("default") {
        assert!(text.contains(&series), "{series} is not in\n{text}");
    }
    assert!(!text.contains(r#"policy="later""#), "{text}");
    engine.replace_policies(policies_from_yaml("policies: {later: {limit: 1 per 1d}}").unwrap());
    let text = server.metrics().await;
    for series in of("later") {
        assert!(text.contains(&series), "{series} is not in\n{text}");
    }
    server.end().await;
}

#[tokio::test]
async fn alerts_dashboard_and_documentation_use_metrics_that_a_server_exports() {
    let redis = Redis::start().unwrap();
    let server = Server::bind(with_long_deadline(redis.url())).await.unwrap();
    let engine = server.engine();
    let server = Running::of(server);
    let id = r#"{"key":"k","request_id":"i"}"#;
    for body in [r#"{"key":"k"}"#, r#"{"key":"k","policy":"unknown"}"#, id, id] {
        server.post("/v1/acquire", body).await;
    }
    for path in ["/v1/refund", "/v1/reset"] {
        server.post(path, r#"{"key":"k"}"#).await;
    }
    server.post("/v1/settle", r#"{"receipt":"none","cost":1}"#).await;
    engine.refuse_policies();
    let mut text = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
    // Some metrics are those of the memory store, and some values those of a shadow that denies.
    let shadow = "policies: {shadow: {limit: 1 per 1d, shadow: true}}";
    let shadow = Config::of_text(&[], |_| None, Some(("t.yaml", shadow))).unwrap();
    let memory = Running::with(shadow.policies).await;
    for _ in 0..2 {
        memory.post("/v1/acquire", r#"{"policy":"shadow","key":"k"}"#).await;
    }
    text += &reqwest::get(memory.url("/metrics")).await.unwrap().text().await.unwrap();
    memory.end().await;
    let (metrics, labels) = documented();
    assert!(metrics.len() > 20 && labels.len() > 10, "{metrics:?} {labels:?}");
    for name in metrics {
        let family = ["_total", "_bucket", "_count", "_sum"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        assert!(text.contains(&format!("# TYPE {family} ")), "{name} is not in\n{text}");
        let sample = |line: &str| line.starts_with(name);
        assert!(name == family || text.lines().any(sample), "{name} has no sample in\n{text}");
    }
    for (page, page_text) in pages() {
        let is_metric = |name: &&str| name.ends_with("_total") || name.ends_with("_seconds");
        for name in names(&page_text).into_iter().filter(is_metric) {
            let family = name.strip_suffix("_total").unwrap_or(name);
            let exists = text.contains(&format!("# TYPE {family} "));
            assert!(exists, "{} names {name}, which does not exist", page.display());
        }
    }
    for (label, value) in chosen_values() {
        let exists = text.contains(&format!(r#"{label}="{value}""#));
        assert!(exists, "no metric has {label}={value}\n{text}");
    }
    for label in labels.into_iter().filter(|label| *label != "instance") {
        let has = text.contains(&format!("{{{label}=")) || text.contains(&format!(",{label}="));
        assert!(has, "no metric has the label {label}\n{text}");
    }
    server.end().await;
}

/// A server with a long deadline, for a busy machine.
fn with_long_deadline(store: String) -> Config {
    let mut config = config();
    config.store = store;
    config.failure.deadline = Duration::from_secs(60);
    config
}

/// The value of a counter without labels.
fn counter(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.expect(name).parse().unwrap()
}

#[tokio::test]
async fn shared_round_trips_are_counted() {
    let (redis, postgres) = (Redis::start().unwrap(), Postgres::start(PgVersion::V15).unwrap());
    for store in [redis.url(), postgres.url()] {
        let server = Running::of(Server::bind(with_long_deadline(store)).await.unwrap());
        let calls: Vec<String> =
            (0..200).map(|_| Resp::command(&["TG.ACQUIRE", "default", "k"])).collect();
        let mut client = server.resp().await;
        client.send(calls.concat().as_bytes()).await;
        client.send(Resp::command(&["QUIT"]).as_bytes()).await;
        let replies = client.rest().await;
        assert_eq!(replies.matches("*5\r\n").count(), 200, "{replies}");
        let text = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
        let trips = counter(&text, "tollgate_store_round_trips_total");
        assert_eq!(counter(&text, "tollgate_store_admissions_total"), 200);
        // Commands that are read together share round trips; they may arrive in several packets.
        assert!((1..100).contains(&trips), "{trips}");
        server.end().await;
    }
}

const COUNTED: &str = "
policies:
  two:
    limits: [{name: second, limit: 9 per 1s}, {name: day, limit: 5 per 1d}]
    overrides: {ada: {limits: [{name: day, limit: 1 per 1d}]}}
  user: {limit: 10 per 1d}
  shadow: {limit: 2 per 1d, shadow: true}
  range: {limit: 7 per 1d}
";

const DECIDED: [&str; 11] = [
    r#"{"policy":"two","key":"k","cost":4}"#,
    r#"{"policy":"two","key":"k","cost":4}"#,
    r#"{"policy":"two","key":"k","cost":6}"#,
    r#"{"policy":"two","key":"ada"}"#,
    r#"{"policy":"two","key":"ada"}"#,
    r#"{"policy":"shadow","key":"k","cost":2}"#,
    r#"{"policy":"shadow","key":"k","cost":2}"#,
    r#"{"policy":"range","key":"k","cost":{"max":9}}"#,
    // Two policies, and one in shadow mode that denies: it charges nothing.
    r#"{"charges":[{"policy":"user","key":"k","cost":3},{"policy":"two","key":"z"},
        {"policy":"shadow","key":"k"}]}"#,
    r#"{"policy":"user","key":"k","cost":2,"request_id":"once"}"#,
    r#"{"policy":"user","key":"k","cost":2,"request_id":"once"}"#,
];

#[tokio::test]
async fn denials_are_counted_by_limit_and_units_by_policy() {
    let server = Running::with(policies_from_yaml(COUNTED).unwrap()).await;
    let line = |metric: &str, labels: &str, count: u64| format!("{metric}{{{labels}}} {count}\n");
    let denials = |policy: &str, limit: &str, shadow: &str, count| {
        let labels = format!(r#"policy="{policy}",limit="{limit}",shadow="{shadow}""#);
        line("tollgate_denials_total", &labels, count)
    };
    let granted = |policy: &str, count| {
        line("tollgate_granted_units_total", &format!(r#"policy="{policy}""#), count)
    };
    let text = server.metrics().await;
    let zero = [
        denials("two", "second", "no", 0),
        denials("two", "day", "no", 0),
        denials("shadow", "shadow", "yes", 0),
        denials("cl.throttle", "cl.throttle", "no", 0),
        granted("two", 0),
    ];
    for series in zero {
        assert!(text.contains(&series), "{series} is not in\n{text}");
    }
    for body in DECIDED {
        assert_eq!(server.post("/v1/acquire", body).await.0, 200, "{body}");
    }
    let batch = r#"{"requests":[{"policy":"user","key":"b"},{"policy":"user","key":"b"}]}"#;
    server.post("/v1/acquire_many", batch).await;
    let text = server.metrics().await;
    for series in [
        // The cost of 6 can never be granted: that is a denial by the same limit.
        denials("two", "day", "no", 3),
        denials("two", "second", "no", 0),
        denials("shadow", "shadow", "yes", 2),
        granted("two", 4 + 1 + 1),
        granted("user", 3 + 2 + 2),
        granted("shadow", 2),
        granted("range", 7),
        line("tollgate_memory_request_ids", r#"prefix="tollgate",policy="user""#, 1),
        line("tollgate_memory_max_request_ids", r#"prefix="tollgate",policy="user""#, 3_000_000),
        line("tollgate_build_info", &format!("version=\"{}\"", env!("CARGO_PKG_VERSION")), 1),
    ] {
        assert!(text.contains(&series), "{series} is not in\n{text}");
    }
    let resident =
        text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    let resident: u64 = resident.unwrap().parse().unwrap();
    assert!((1 << 20..1 << 34).contains(&resident), "{resident}");
    server.end().await;
}

async fn with_tokens(tokens: &str) -> Running {
    let flags = [
        (Setting::Http, "127.0.0.1:0"),
        (Setting::Grpc, "127.0.0.1:0"),
        (Setting::Resp, "127.0.0.1:0"),
        (Setting::Tokens, tokens),
    ];
    let flags: Vec<_> = flags.map(|(setting, text)| (setting, text.to_owned())).into();
    let config = Config::of_text(&flags, |_| None, None).unwrap();
    Running::of(Server::bind(config).await.unwrap())
}

#[tokio::test]
async fn refused_callers_are_counted_by_protocol_and_code() {
    let server = with_tokens("token-of-a-caller:default,token-of-everything").await;
    let post = async |token: &str, path: &str, body: &'static str| {
        let request = reqwest::Client::new().post(server.url(path)).bearer_auth(token);
        request.body(body).send().await.unwrap().status().as_u16()
    };
    let (caller, all, key) = ("token-of-a-caller", "token-of-everything", r#"{"key":"k"}"#);
    assert_eq!(post("nonsense", "/v1/acquire", key).await, 401);
    assert_eq!(post(caller, "/v1/reset", key).await, 403);
    assert_eq!(post(caller, "/v1/acquire", r#"{"key":"k","policy":"other"}"#).await, 403);
    assert_eq!(post(all, "/v1/acquire", r#"{"key":"k","policy":"other"}"#).await, 404);
    assert_eq!(post(all, "/v1/acquire", "{}").await, 400);
    assert_eq!(post(all, "/v1/inspect", "{}").await, 400);
    // A denial by the status of a gate is no refusal.
    for status in [204, 403] {
        let gate = "/v1/gate?key=g&cost=10&deny_status=403";
        assert_eq!(post(all, gate, "").await, status);
    }
    let mut grpc = server.grpc().await;
    let acquire = |policy: &str, key: &str| pb::AcquireRequest {
        policy: policy.to_owned(),
        key: key.to_owned(),
        ..Default::default()
    };
    for (token, policy, key) in
        [("nonsense", "", "k"), (caller, "other", "k"), (all, "", ""), (all, "other", "k")]
    {
        let mut request = tonic::Request::new(acquire(policy, key));
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        grpc.acquire(request).await.unwrap_err();
    }
    let mut resp = server.resp().await;
    for words in [
        &["PING"][..],
        &["AUTH", "nonsense"],
        &["AUTH", caller],
        &["TG.ACQUIRE", "other", "k"],
        &["TG.ACQUIRE", "default"],
        &["TG.ACQUIRE", "default", ""],
        &["AUTH", all],
        &["TG.ACQUIRE", "other", "k"],
    ] {
        resp.reply(words).await;
    }
    let text = reqwest::Client::new().get(server.url("/metrics")).bearer_auth(all);
    let text = text.send().await.unwrap().text().await.unwrap();
    let counts = [("http", [1, 2, 2, 1]), ("grpc", [1, 1, 1, 1]), ("resp", [2, 1, 2, 1])];
    let codes = ["unauthorized", "forbidden", "invalid_request", "unknown_policy"];
    for (protocol, expected) in counts {
        for (code, count) in codes.iter().zip(expected) {
            let labels = format!(r#"protocol="{protocol}",code="{code}""#);
            let line = format!("tollgate_refused_requests_total{{{labels}}} {count}\n");
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn elements_that_are_refused_are_counted_as_requests() {
    let server =
        Running::with(policies_from_yaml("policies: {p: {limit: 10 per 1m}}").unwrap()).await;
    let body = r#"{"requests":[{"key":"k","policy":"p"},{},{"key":"k","policy":"other"}]}"#;
    assert_eq!(server.post("/v1/acquire_many", body).await.0, 200);
    let element = |policy: &str, key: &str| pb::AcquireRequest {
        policy: policy.to_owned(),
        key: key.to_owned(),
        ..Default::default()
    };
    let elements = || vec![element("p", "k"), element("p", ""), element("other", "k")];
    let mut grpc = server.grpc().await;
    grpc.acquire_many(pb::AcquireManyRequest { requests: elements() }).await.unwrap();
    let outcomes = grpc.acquire_stream(tokio_stream::iter(elements())).await.unwrap();
    let mut outcomes = outcomes.into_inner();
    for _ in elements() {
        assert!(outcomes.message().await.unwrap().is_some());
    }
    let text = server.metrics().await;
    for (protocol, count) in [("http", 1), ("grpc", 2)] {
        for code in ["invalid_request", "unknown_policy"] {
            let labels = format!(r#"protocol="{protocol}",code="{code}""#);
            let line = format!("tollgate_refused_requests_total{{{labels}}} {count}\n");
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
    server.end().await;
}
