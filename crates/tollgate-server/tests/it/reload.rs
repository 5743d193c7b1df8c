//! What a server applies while it runs: policies, tokens, certificates, secrets, levels of the log;
//! what it says about each, and what needs a restart.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::config::Setting;
use tollgate_server::{Config, Reloaded, Reloader, Server, Watch};
use tonic::Request;
use tracing::level_filters::LevelFilter;

use crate::security::{Certificates, HTTP, exchange};
use crate::support::{Resp, Running};

const CALLER: &str = "token-of-a-caller";
const OTHER: &str = "token-of-another";

fn flags(more: &[(Setting, &str)]) -> Vec<(Setting, String)> {
    let any = [Setting::Http, Setting::Grpc, Setting::Resp].map(|one| (one, "127.0.0.1:0"));
    any.iter().chain(more).map(|(setting, text)| (*setting, (*text).to_owned())).collect()
}

fn read(more: &[(Setting, &str)], text: &str) -> Config {
    Config::of_text(&flags(more), |_| None, Some(("t.yaml", text))).unwrap()
}

/// A server, and what reloads it.
async fn server(more: &[(Setting, &str)], text: &str) -> (Running, Reloader) {
    let server = Server::bind(read(more, text)).await.unwrap();
    let reloader = server.reloader();
    (Running::of(server), reloader)
}

/// The changes, as texts.
fn texts(reloaded: &Reloaded) -> (Vec<String>, Vec<String>) {
    let policies = reloaded.policies.iter().map(ToString::to_string).collect();
    (policies, reloaded.settings.iter().map(ToString::to_string).collect())
}

async fn changes(server: &Running, token: &str) -> Vec<String> {
    let request = reqwest::Client::new().get(server.url("/v1/status")).bearer_auth(token);
    let status: Value =
        serde_json::from_slice(&request.send().await.unwrap().bytes().await.unwrap()).unwrap();
    let changes = status["changes"].as_array().unwrap().iter();
    changes.map(|change| change["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_reload_says_what_changed_and_what_needs_a_restart() {
    let before = "policies: {a: {limit: 1 per 1s}, b: {limit: 5 per 1d}}";
    let (server, reloader) = server(&[], before).await;
    let after = "
deadline: 250ms
on_outage: closed
store: redis://:hunter2@h
log_level: debug
policies: {b: {limit: 6 per 1d, on_outage: open, overrides: {ada: {limit: 9 per 1d}}}}
";
    let reloaded = reloader.apply(Ok(read(&[], after))).unwrap();
    let (policies, settings) = texts(&reloaded);
    let expected = [
        "policy a: removed",
        "policy b: limit b: from 5 per 1d to 6 per 1d",
        "policy b: overrides: 1 added",
        "policy default: on_outage: from open to closed",
    ];
    assert_eq!(policies, expected);
    let expected = [
        "store: from memory: to redis://***@h; needs a restart",
        "on_outage: from open to closed",
        "deadline: from 100ms to 250ms; needs a restart",
        "log_level: from info to debug",
    ];
    assert_eq!(settings, expected);
    assert_eq!(reloaded.log_level, LevelFilter::DEBUG);
    let metrics = server.metrics().await;
    assert!(metrics.contains("tollgate_settings_awaiting_restart 2\n"), "{metrics}");
    assert!(metrics.contains("tollgate_reloads_total{result=\"applied\"} 1\n"), "{metrics}");
    let said = changes(&server, "").await;
    assert!(said.iter().any(|text| text.contains("policy a: removed")), "{said:?}");
    assert!(said.iter().any(|text| text.contains("deadline")), "{said:?}");
    assert!(!said.concat().contains("hunter2") && !said.concat().contains("ada"), "{said:?}");
    let (status, decision) = server.post("/v1/acquire", r#"{"policy":"b","key":"ada"}"#).await;
    assert_eq!((status, &decision["limit"]), (200, &json!(9)));
    // What needs a restart is said until it is as it was, and what is as it was is not said.
    let again = reloader.apply(Ok(read(&[], after))).unwrap();
    let (policies, settings) = texts(&again);
    assert_eq!((policies.len(), settings.len()), (0, 2), "{settings:?}");
    let back = reloader.apply(Ok(read(&[], before))).unwrap();
    assert_eq!(texts(&back).1.iter().filter(|text| text.contains("restart")).count(), 0);
    assert!(server.metrics().await.contains("tollgate_settings_awaiting_restart 0\n"));
    server.end().await;
}

#[tokio::test]
async fn tokens_change_for_new_requests_and_for_connections_that_are_open() {
    let (server, reloader) = server(&[(Setting::Tokens, CALLER)], "").await;
    let mut resp = server.resp().await;
    assert_eq!(resp.call(&["AUTH", CALLER]).await, "+OK");
    assert_eq!(resp.five(&["TG.ACQUIRE", "default", "k"]).await[0], 1);
    let client = reqwest::Client::new();
    let mut events = client.get(server.url("/v1/events")).bearer_auth(CALLER).send().await.unwrap();
    let acquire = async |token: &str| {
        let request = reqwest::Client::new().post(server.url("/v1/acquire")).bearer_auth(token);
        request.body(r#"{"key":"k"}"#).send().await.unwrap().status().as_u16()
    };
    let mut grpc = server.grpc().await;
    let mut acquire_grpc = async |token: &str| {
        let acquire = pb::AcquireRequest { key: "k".to_owned(), ..Default::default() };
        let mut request = Request::new(acquire);
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        grpc.acquire(request).await.map(|_| ()).map_err(|status| status.code())
    };
    assert_eq!((acquire(CALLER).await, acquire(OTHER).await), (200, 401));
    let reloaded = reloader.apply(Ok(read(&[(Setting::Tokens, OTHER)], ""))).unwrap();
    assert_eq!(texts(&reloaded).1, ["tokens: changed"]);
    assert_eq!((acquire(CALLER).await, acquire(OTHER).await), (401, 200));
    assert_eq!(acquire_grpc(CALLER).await, Err(tonic::Code::Unauthenticated));
    assert_eq!(acquire_grpc(OTHER).await, Ok(()));
    let refused = resp.call(&["TG.ACQUIRE", "default", "k"]).await;
    assert_eq!(refused, "-NOAUTH Authentication required.");
    assert_eq!(resp.call(&["AUTH", OTHER]).await, "+OK");
    assert_eq!(resp.five(&["TG.ACQUIRE", "default", "k"]).await[0], 1);
    while events.chunk().await.unwrap().is_some() {}
    server.end().await;
}

#[tokio::test]
async fn a_scope_that_becomes_narrower_counts_for_connections_that_are_open() {
    let policies = "policies: {a: {limit: 9 per 1d}, b: {limit: 9 per 1d}}";
    let (server, reloader) = server(&[(Setting::Tokens, CALLER)], policies).await;
    let mut resp = server.resp().await;
    assert_eq!(resp.call(&["AUTH", CALLER]).await, "+OK");
    assert_eq!(resp.five(&["TG.ACQUIRE", "b", "k"]).await[0], 1);
    let scoped = format!("{CALLER}:a");
    reloader.apply(Ok(read(&[(Setting::Tokens, &scoped)], policies))).unwrap();
    assert!(resp.call(&["TG.ACQUIRE", "b", "k"]).await.starts_with("-NOPERM"));
    assert_eq!(resp.five(&["TG.ACQUIRE", "a", "k"]).await[0], 1);
    server.end().await;
}

/// A file that drops its tokens and its public address at once is refused: the address is still
/// listened on.
#[tokio::test]
async fn tokens_stay_while_others_reach_the_address() {
    let public = [(Setting::Http, "0.0.0.0:0"), (Setting::Tokens, CALLER)];
    let (server, reloader) = server(&public, "").await;
    let refused = reloader.apply(Ok(read(&[], ""))).unwrap_err().to_string();
    assert!(refused.contains("others can reach this address"), "{refused}");
    let url = format!("http://127.0.0.1:{}/metrics", server.at.http.unwrap().port());
    let without = reqwest::get(&url).await.unwrap().status().as_u16();
    assert_eq!(without, 401);
    let text = reqwest::Client::new().get(&url).bearer_auth(CALLER).send().await.unwrap();
    let text = text.text().await.unwrap();
    assert!(text.contains("tollgate_reloads_total{result=\"refused\"} 1\n"), "{text}");
    server.end().await;
}

/// A receipt from before a new secret is accepted once, and a replay has the same one.
#[tokio::test]
async fn receipts_outlive_their_secret() {
    let redis = tollgate_test_servers::Redis::start().unwrap();
    let url = redis.url();
    let with = |secret| [(Setting::Store, &*url), (Setting::ReceiptSecret, secret)];
    let policies = "deadline: 60s\npolicies: {p: {limit: 10 per 1d}}";
    let (server, reloader) = server(&with("the first of two secrets"), policies).await;
    let charge = r#"{"policy":"p","key":"k","cost":4,"request_id":"once"}"#;
    let receipt = server.post("/v1/acquire", charge).await.1["receipt"].clone();
    let reloaded = reloader.apply(Ok(read(&with("the second of two secrets"), policies))).unwrap();
    assert_eq!(texts(&reloaded).1, ["receipt_secret: changed"]);
    let replay = server.post("/v1/acquire", charge).await.1;
    assert_eq!((&replay["replayed"], &replay["receipt"]), (&json!(true), &receipt));
    let refund = json!({"receipt": receipt}).to_string();
    let (status, refunded) = server.post("/v1/refund", &refund).await;
    assert_eq!((status, &refunded["refunded"]), (200, &json!(4)), "{refunded}");
    let again = server.post("/v1/refund", &refund).await.1;
    assert_eq!(again["replayed"], true);
    server.end().await;
}

/// A folder of its own for a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[tokio::test]
async fn a_file_is_applied_when_two_looks_agree_and_its_absence_is_said_once() {
    let file = folder("watched").join("tollgate.yaml");
    fs::write(&file, "policies: {a: {limit: 1 per 1d}}").unwrap();
    let config = Config::of_bytes(&flags(&[]), &file, fs::read(&file).unwrap()).unwrap();
    let server = Server::bind(config).await.unwrap();
    let mut watch = Watch::new(server.reloader(), flags(&[]), Some(file.clone()));
    let server = Running::of(server);
    assert!(watch.look(false).is_none(), "nothing changed");
    fs::write(&file, "policies: {a: {limit: 2 per 1d}}").unwrap();
    assert!(watch.look(false).is_none(), "it may not be complete");
    let reloaded = watch.look(false).unwrap().unwrap();
    assert_eq!(texts(&reloaded).0, ["policy a: limit a: from 1 per 1d to 2 per 1d"]);
    assert!(watch.look(false).is_none());
    fs::write(&file, "policies: {a: {limit: lots}}").unwrap();
    assert!(watch.look(false).is_none());
    let refused = watch.look(false).unwrap().unwrap_err().to_string();
    assert!(refused.contains("tollgate.yaml:1: policies.a.limit"), "{refused}");
    assert!(watch.look(false).is_none(), "it is refused once");
    // Without the file all stays as it was.
    fs::remove_file(&file).unwrap();
    for _ in 0..4 {
        assert!(watch.look(false).is_none());
    }
    let said = async || {
        let gone = "is gone: all stays as it was.";
        let changes = changes(&server, "").await;
        let count = |end| changes.iter().filter(|text| text.ends_with(end)).count();
        (count(gone), count("is back."))
    };
    let becomes = async |expected| {
        let wait = async { while said().await != expected {} };
        let waited = tokio::time::timeout(Duration::from_secs(60), wait).await;
        assert!(waited.is_ok(), "{expected:?}");
    };
    becomes((1, 0)).await;
    assert!(server.metrics().await.contains("tollgate_missing_files 1\n"));
    // A signal says that it should be there.
    assert!(watch.look(true).unwrap().unwrap_err().to_string().contains("cannot be read"));
    fs::write(&file, "policies: {a: {limit: 3 per 1d}}").unwrap();
    assert!(watch.look(false).is_none());
    assert!(watch.look(false).unwrap().is_ok());
    becomes((1, 1)).await;
    assert!(server.metrics().await.contains("tollgate_missing_files 0\n"));
    fs::write(&file, "policies: {a: {limit: 4 per 1d}}").unwrap();
    assert!(watch.look(true).unwrap().is_ok(), "a signal means that it is complete");
    server.end().await;
}

/// The names of the limits in `/v1/policies` follow, on every listener the new limits decide.
#[tokio::test]
async fn every_protocol_decides_under_the_new_policies() {
    let (server, reloader) = server(&[], "policies: {p: {limit: 1 per 1d}}").await;
    reloader
        .apply(Ok(read(&[], "policies: {p: {limit: 3 per 1d}, q: {limit: 1 per 1d}}")))
        .unwrap();
    assert_eq!(server.post("/v1/acquire", r#"{"policy":"p","key":"k"}"#).await.1["limit"], 3);
    assert_eq!(server.resp().await.five(&["TG.ACQUIRE", "p", "k"]).await[1], 3);
    let request =
        pb::AcquireRequest { policy: "q".to_owned(), key: "k".to_owned(), ..Default::default() };
    assert!(server.grpc().await.acquire(request).await.unwrap().into_inner().allowed);
    let listed = reqwest::get(server.url("/v1/policies")).await.unwrap().text().await.unwrap();
    assert!(listed.contains(r#""policy":"q""#), "{listed}");
    let mut pipeline = server.resp().await;
    pipeline.send(Resp::command(&["PING"]).as_bytes()).await;
    pipeline.expect("+PONG\r\n").await;
    server.end().await;
}

/// Copies the files of certificates over those that are in force.
fn replace(from: &Certificates, to: &Certificates) {
    for name in ["root.pem", "server.pem", "server.key"] {
        fs::copy(from.path(name), to.path(name)).unwrap();
    }
}

const GET: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A request over a connection that stays open; the reply up to its body.
async fn request(stream: &mut TlsStream<TcpStream>) -> String {
    stream.write_all(GET.as_bytes()).await.unwrap();
    let mut reply = String::new();
    while !reply.ends_with("ok\n") {
        let mut bytes = [0; 1_024];
        let read = stream.read(&mut bytes).await.unwrap();
        assert!(read > 0, "{reply}");
        reply += std::str::from_utf8(&bytes[..read]).unwrap();
    }
    reply
}

#[tokio::test]
async fn certificates_and_their_authority_change_without_closing_connections() {
    let [old, new] = ["reload-old", "reload-new"].map(Certificates::make);
    let mut settings = flags(&[]);
    settings.extend(old.settings());
    settings.push((Setting::TlsClientCa, old.path("root.pem")));
    let config = Config::of_text(&settings, |_| None, None).unwrap();
    let server = Server::bind(config).await.unwrap();
    let mut watch = Watch::new(server.reloader(), settings, None);
    let server = Running::of(server);
    let address = server.at.http.unwrap();
    let [by_old, by_new] = [old.connector(true), new.connector(true)];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut open = by_old.connect(name, stream).await.unwrap();
    assert!(request(&mut open).await.starts_with("HTTP/1.1 200"));
    assert!(exchange(&by_new, address, HTTP).await.is_err(), "of another authority");
    // A key without its certificate is refused, once, and nothing changes.
    fs::copy(new.path("server.key"), old.path("server.key")).unwrap();
    assert!(watch.look(false).is_none());
    let refused = watch.look(false).unwrap().unwrap_err().to_string();
    assert!(refused.contains("tls_cert: cannot be used"), "{refused}");
    assert!(watch.look(false).is_none());
    assert!(request(&mut open).await.starts_with("HTTP/1.1 200"));
    assert!(exchange(&by_old, address, HTTP).await.is_ok());
    replace(&new, &old);
    assert!(watch.look(false).is_none());
    let reloaded = watch.look(false).unwrap().unwrap();
    assert!(reloaded.certificates && reloaded.settings.is_empty(), "{reloaded:?}");
    assert!(request(&mut open).await.starts_with("HTTP/1.1 200"), "it stays open");
    // Every listener has the new certificate, and asks for those of the new authority.
    for at in [address, server.at.resp.unwrap()] {
        assert!(exchange(&by_old, at, HTTP).await.is_err(), "{at}");
    }
    let reply = exchange(&by_new, address, HTTP).await.unwrap();
    assert!(reply.contains("\"allowed\":true"), "{reply}");
    let pong = exchange(&by_new, server.at.resp.unwrap(), b"PING\r\nQUIT\r\n").await.unwrap();
    assert_eq!(pong, "+PONG\r\n+OK\r\n");
    server.end().await;
}

/// Listeners with and without TLS are different ones.
#[tokio::test]
async fn to_switch_tls_on_needs_a_restart() {
    let certificates = Certificates::make("reload-switch");
    let (server, reloader) = server(&[], "").await;
    let mut settings = flags(&[]);
    settings.extend(certificates.settings());
    let config = Config::of_text(&settings, |_| None, None).unwrap();
    let reloaded = reloader.apply(Ok(config)).unwrap();
    let (_, settings) = texts(&reloaded);
    assert_eq!(settings.len(), 2);
    assert!(settings.iter().all(|text| text.ends_with("; needs a restart")), "{settings:?}");
    assert_eq!(server.post("/v1/acquire", r#"{"key":"k"}"#).await.0, 200);
    server.end().await;
}
