//! What operators read without the page: the status, its events, and how a key stands.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_server::config::Setting;
use tollgate_server::telemetry::metrics_table;
use tollgate_server::{Config, Server};

use crate::support::Running;

const CALLER: &str = "token-of-a-caller";
const PATHS: [&str; 4] = ["/", "/page/app.js", "/v1/status", "/v1/events"];
const POLICIES: &str = "policies:
  p: {limit: 2 per 1d}
  q: {limits: [{name: hour, limit: 1 per 1h}, {name: day, limit: 9 per 1d}]}
";

async fn server(more: &[(Setting, &str)]) -> Running {
    let listeners = [Setting::Http, Setting::Grpc, Setting::Resp];
    let any = listeners.map(|listener| (listener, "127.0.0.1:0"));
    let flags = any.iter().chain(more).map(|(setting, text)| (*setting, (*text).to_owned()));
    let flags: Vec<_> = flags.collect();
    let config = Config::of_text(&flags, |_| None, Some(("t.yaml", POLICIES))).unwrap();
    Running::of(Server::bind(config).await.unwrap())
}

async fn status(server: &Running) -> Value {
    let response = reqwest::get(server.url("/v1/status")).await.unwrap();
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

fn policy<'a>(status: &'a Value, name: &str) -> &'a Value {
    let mut policies = status["policies"].as_array().unwrap().iter();
    policies.find(|policy| policy["policy"] == name).unwrap()
}

#[tokio::test]
async fn the_status_has_totals_top_keys_and_denials() {
    let server = server(&[(Setting::LogKeys, "plain")]).await;
    for key in ["ada", "ada", "ada", "ada", "bob"] {
        server.post("/v1/acquire", &json!({"policy": "p", "key": key}).to_string()).await;
    }
    let status = status(&server).await;
    let (p, store) = (policy(&status, "p"), &status["store"]);
    assert_eq!([&p["allowed"], &p["denied"], &p["errors"]], [3, 2, 0]);
    assert_eq!(p["memory"]["keys"], 2);
    let ada = json!([{"key": "ada", "count": 2, "error": 0}]);
    assert_eq!(p["throttled"], json!({"sampled_one_in": 1, "keys": ada}));
    assert_eq!(p["spenders"]["keys"][0], ada[0]);
    assert_eq!(p["spenders"]["keys"][1]["key"], "bob");
    let denial = &p["denials"][0];
    assert_eq!([&denial["key"], &denial["limit"]], ["ada", "p"]);
    assert_eq!([&denial["cost"], &denial["times"]], [1, 2]);
    assert!(denial["at_ms"].as_u64() <= status["now_ms"].as_u64());
    assert_eq!([&store["kind"], &store["problem"]], [&json!("memory"), &Value::Null]);
    assert_eq!(status["keys_are_hashed"], false);
    let sample = &status["samples"][0];
    assert_eq!(sample["policies"][0]["denied"], 2);
    assert!(sample["requests_us"]["p99"].as_u64() > Some(0));
    assert!(policy(&status, "q")["denials"].as_array().unwrap().is_empty());
    server.end().await;
}

#[tokio::test]
async fn keys_are_hashed_and_the_caller_of_one_finds_it() {
    let server = server(&[]).await;
    for _ in 0..3 {
        server.post("/v1/acquire", r#"{"policy": "q", "key": "ada"}"#).await;
    }
    let text = status(&server).await.to_string();
    assert!(!text.contains("ada"), "{text}");
    let by = json!([{"limit": "hour", "denied": 2}]);
    assert_eq!(policy(&status(&server).await, "q")["denied_by"], by);
    let (code, standing) = server.post("/v1/inspect", r#"{"key": "ada"}"#).await;
    assert_eq!(code, 200);
    let q = policy(&standing, "q");
    let hour = &q["limits"][0];
    assert_eq!(
        [&hour["name"], &hour["limit"], &hour["remaining"]],
        [&json!("hour"), &json!(1), &json!(0)]
    );
    assert!(hour["reset_at_ms"].as_u64() > standing["now_ms"].as_u64());
    assert_eq!(q["limits"][1]["remaining"], 8);
    assert_eq!([&q["denials"][0]["limit"], &q["denials"][0]["times"]], [&json!("hour"), &json!(2)]);
    assert_eq!(policy(&standing, "p")["denials"], json!([]));
    let (code, other) = server.post("/v1/inspect", r#"{"key": "bob", "policy": "q"}"#).await;
    assert_eq!((code, other["policies"].as_array().unwrap().len()), (200, 1));
    assert_eq!(policy(&other, "q")["limits"][0]["remaining"], 1);
    server.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_search_is_named() {
    let server = server(&[]).await;
    let long = json!({"key": "k".repeat(513)}).to_string();
    for (body, status, code, field) in [
        ("{}", 400, "invalid_request", "key"),
        (r#"{"key": 5}"#, 400, "invalid_request", "key"),
        (r#"{"key": ""}"#, 400, "invalid_request", "key"),
        (r#"{"key": "k", "cost": 1}"#, 400, "invalid_request", "cost"),
        (&long, 400, "invalid_request", "key"),
        (r#"{"key": "k", "policy": "r"}"#, 404, "unknown_policy", "policy"),
    ] {
        let (answered, problem) = server.post("/v1/inspect", body).await;
        assert_eq!(
            (answered, &problem["code"], &problem["field"]),
            (status, &json!(code), &json!(field))
        );
    }
    let refused = reqwest::get(server.url("/v1/inspect")).await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["allow"]),
        (405, &"POST".parse().unwrap())
    );
    server.end().await;
}

/// The next event of a stream.
async fn event(stream: &mut reqwest::Response, text: &mut String) -> Value {
    loop {
        if let Some((event, rest)) = text.split_once("\n\n") {
            let data = event.lines().find_map(|line| line.strip_prefix("data: "));
            let data = data.map(|data| serde_json::from_str(data).unwrap());
            *text = rest.to_owned();
            if let Some(data) = data {
                return data;
            }
            continue;
        }
        text.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().expect("an event")));
    }
}

#[tokio::test]
async fn a_denial_is_in_the_events_and_the_stream_ends_with_the_server() {
    let server = server(&[]).await;
    let mut stream = reqwest::get(server.url("/v1/events")).await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut text = String::new();
    assert_eq!(policy(&event(&mut stream, &mut text).await, "p")["denied"], 0);
    for _ in 0..3 {
        server.post("/v1/acquire", r#"{"policy": "p", "key": "k"}"#).await;
    }
    let mut late = 0;
    while policy(&event(&mut stream, &mut text).await, "p")["denied"] != 1 {
        late += 1;
        assert!(late < 2, "not within two seconds");
    }
    let ended = server.shut_down();
    while stream.chunk().await.unwrap().is_some() {}
    ended.await.unwrap();
}

#[tokio::test]
async fn reloads_are_changes() {
    let server = Server::bind(crate::support::config()).await.unwrap();
    let engine = server.engine();
    let server = Running::of(server);
    assert_eq!(status(&server).await["changes"], json!([]));
    engine.replace_policies(crate::support::slow());
    engine.refuse_policies();
    let changes = loop {
        let changes = status(&server).await["changes"].clone();
        if changes != json!([]) {
            break changes;
        }
    };
    let texts = changes.as_array().unwrap().iter().map(|change| change["text"].as_str().unwrap());
    let [refused, reloaded] = texts.collect::<Vec<_>>()[..] else { panic!("{changes}") };
    assert!(refused.contains("refused") && reloaded.contains("reloaded"), "{changes}");
    server.end().await;
}

#[tokio::test]
async fn the_status_needs_a_token_and_the_files_of_the_page_do_not() {
    let server = server(&[(Setting::Tokens, CALLER)]).await;
    let client = reqwest::Client::new();
    for path in PATHS {
        let is_file = !path.starts_with("/v1");
        let without = client.get(server.url(path)).send().await.unwrap().status().as_u16();
        assert_eq!(without, if is_file { 200 } else { 401 }, "{path}");
        let with = client.get(server.url(path)).bearer_auth(CALLER).send().await.unwrap();
        assert_eq!(with.status().as_u16(), 200, "{path}");
        assert_eq!(with.headers()["x-content-type-options"], "nosniff");
    }
    let (code, _) = server.post("/v1/inspect", r#"{"key": "k"}"#).await;
    assert_eq!(code, 401);
    server.end().await;
}

/// A page of another site cannot read the status through a browser on this machine.
#[tokio::test]
async fn pages_of_other_sites_are_refused() {
    let server = server(&[]).await;
    for (name, value) in [
        ("origin", "http://other.example"),
        ("sec-fetch-site", "cross-site"),
        ("host", "other.example"),
    ] {
        let request = reqwest::Client::new().get(server.url("/v1/status")).header(name, value);
        assert_eq!(request.send().await.unwrap().status().as_u16(), 403, "{name}");
    }
    server.end().await;
}

#[tokio::test]
async fn it_is_off_where_others_reach_the_address_without_a_token() {
    for (tokens, expected) in [(Setting::AdminTokens, 403), (Setting::Tokens, 200)] {
        let public =
            [(Setting::Http, "0.0.0.0:0"), (Setting::InsecurePublic, "true"), (tokens, CALLER)];
        let mut server = server(&public).await;
        let port = server.at.http.unwrap().port();
        server.at.http = Some(SocketAddr::from(([127, 0, 0, 1], port)));
        for path in PATHS {
            let request = reqwest::Client::new().get(server.url(path)).bearer_auth(CALLER);
            let response = request.send().await.unwrap();
            assert_eq!(response.status().as_u16(), expected, "{path}");
        }
        let mut stream = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
        let get = "GET /readyz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
        stream.write_all(get.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        server.end().await;
    }
}

#[test]
fn the_status_reads_metrics_that_exist() {
    let table = metrics_table();
    let source = include_str!("../../src/status/reading.rs");
    let names = source.split('"').filter(|text| text.starts_with("tollgate_"));
    let names: Vec<&str> = names.filter(|name| !name.contains([' ', '{'])).collect();
    assert!(names.len() > 6, "{names:?}");
    for name in names {
        let name = name.trim_end_matches("_bucket");
        assert!(table.contains(&format!("`{name}`")), "{name} is no metric");
    }
}
