//! Several servers over one Redis, PostgreSQL or file: together they admit exactly the limit, and
//! decide by the outage modes when the store is down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::json;
use tokio::task::JoinSet;
use tollgate_proto::tollgate_v1::AcquireRequest;
use tollgate_server::config::Setting;
use tollgate_server::{Config, Server};
use tollgate_test_servers::shared::denokv;
use tollgate_test_servers::{Folder, PgVersion, Postgres, Redis, Server as Backend};

use crate::refunds::give_back_once;
use crate::settle::settle_once;
use crate::support::Running;

const LIMIT: u64 = 300;

fn backends() -> (Redis, Postgres) {
    (Redis::start().unwrap(), Postgres::start(PgVersion::V15).unwrap())
}

/// The address of a server with long timeouts: a slow reply on a busy machine is no outage.
fn slow_redis(redis: &Redis) -> String {
    format!("{}?connect_timeout_ms=30000&reply_timeout_ms=30000", redis.url())
}

fn slow_postgres(postgres: &Postgres) -> String {
    format!("{}?connect_timeout=30", postgres.url())
}

async fn server(store: &str, policies: &str) -> Running {
    let any = || "127.0.0.1:0".to_owned();
    let flags = [
        (Setting::Http, any()),
        (Setting::Grpc, any()),
        (Setting::Resp, any()),
        (Setting::Store, store.to_owned()),
    ];
    let settings = "deadline: 30s\nlocal_share: 1/3\nreceipt_secret: shared-by-all-servers\n";
    let file = format!("{settings}policies:\n{policies}");
    let config = Config::of_text(&flags, |_| None, Some(("t.yaml", &file))).unwrap();
    Running::of(Server::bind(config).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_and_two_hundred_clients_get_exactly_the_limit() {
    let (redis, postgres) = backends();
    get_exactly_the_limit(&slow_redis(&redis)).await;
    get_exactly_the_limit(&slow_postgres(&postgres)).await;
    let (_folder, file) = file();
    get_exactly_the_limit(&file).await;
}

/// A file of its own, with a lock timeout for a busy machine.
fn file() -> (Folder, String) {
    let folder = Folder::new("sqlite").unwrap();
    let path = folder.path().join("limits.db");
    let address = format!("sqlite:{}?lock_timeout_ms=60000", path.display());
    (folder, address)
}

async fn get_exactly_the_limit(store: &str) {
    let policy = format!("  p: {{limit: {LIMIT} per 1d, on_outage: closed}}\n");
    let mut servers = Vec::new();
    for _ in 0..3 {
        let server = server(store, &policy).await;
        let grpc = server.grpc().await;
        servers.push(Arc::new((server, grpc)));
    }
    let (allowed, http) = (Arc::new(AtomicU64::new(0)), reqwest::Client::new());
    let mut clients = JoinSet::new();
    for client in 0..200 {
        let (one, allowed, http) =
            (Arc::clone(&servers[client % 3]), Arc::clone(&allowed), http.clone());
        clients.spawn(async move {
            let (server, grpc) = &*one;
            let (mut grpc, mut resp) = (grpc.clone(), server.resp().await);
            for turn in 0..4 {
                let passed = match (client / 3 + turn) % 3 {
                    0 => {
                        let body = r#"{"policy":"p","key":"hot"}"#;
                        let post = http.post(server.url("/v1/acquire")).body(body);
                        let text = post.send().await.unwrap().text().await.unwrap();
                        assert!(text.contains("\"allowed\""), "{text}");
                        text.contains("\"allowed\":true")
                    }
                    1 => {
                        let (policy, key) = ("p".to_owned(), "hot".to_owned());
                        let request = AcquireRequest { policy, key, ..AcquireRequest::default() };
                        grpc.acquire(request).await.unwrap().into_inner().allowed
                    }
                    _ => resp.five(&["TG.ACQUIRE", "p", "hot"]).await[0] == 1,
                };
                allowed.fetch_add(u64::from(passed), Relaxed);
            }
        });
    }
    clients.join_all().await;
    assert_eq!(allowed.load(Relaxed), LIMIT);
}

#[tokio::test]
async fn a_request_id_is_charged_once_over_two_servers_and_all_protocols() {
    let (redis, postgres) = backends();
    charge_once(&slow_redis(&redis)).await;
    charge_once(&slow_postgres(&postgres)).await;
    let (_folder, file) = file();
    charge_once(&file).await;
    charge_once(&denokv().url()).await;
}

async fn charge_once(store: &str) {
    let policy = "  p: {limit: 10 per 1d}\n";
    let (one, other) = (server(store, policy).await, server(store, policy).await);
    let body = r#"{"policy":"p","key":"k","cost":3,"request_id":"i"}"#;
    let mut first = one.post("/v1/acquire", body).await.1;
    assert_eq!((&first["allowed"], &first["remaining"]), (&json!(true), &json!(7)));
    first["replayed"] = json!(true);
    assert_eq!(other.post("/v1/acquire", body).await.1, first);
    let replayed = other.resp().await.reply(&["TG.ACQUIRE", "p", "k", "3", "i"]).await;
    assert_eq!(
        (&replayed[2], &replayed[5], &replayed[6]),
        (&json!(7), &json!(1), &first["receipt"])
    );
    let conflict = other.resp().await.call(&["TG.ACQUIRE", "p", "k", "4", "i"]).await;
    assert!(conflict.starts_with("-CONFLICT"), "{conflict}");
    one.end().await;
    other.end().await;
}

#[tokio::test]
async fn a_receipt_is_used_once_over_two_servers_and_all_protocols() {
    let (redis, postgres) = backends();
    use_receipts_once(&slow_redis(&redis)).await;
    use_receipts_once(&slow_postgres(&postgres)).await;
    let (_folder, file) = file();
    use_receipts_once(&file).await;
    use_receipts_once(&denokv().url()).await;
}

async fn use_receipts_once(store: &str) {
    let policies = "  one: {limit: 50 per 1d}
  log: {algorithm: sliding_log, limit: 50 per 1d}
  two: {limits: [{name: a, limit: 50 per 1d}, {name: b, algorithm: fixed_window, limit: 90 per 1d}]}
";
    let one = Arc::new(server(store, policies).await);
    let other = Arc::new(server(store, policies).await);
    for policy in ["one", "log", "two"] {
        give_back_once(&[&one, &other], policy).await;
    }
    for (to, left) in [(5, 45), (35, 15), (70, 0)] {
        settle_once(&[&one, &other], "two", to, left).await;
    }
}

#[tokio::test]
async fn outage_modes_decide_while_the_store_is_down() {
    let (redis, postgres) = backends();
    kill_and_restart(&redis, &slow_redis(&redis), "redis").await;
    kill_and_restart(&postgres, &slow_postgres(&postgres), "postgres").await;
}

async fn kill_and_restart(backend: &Backend, store: &str, name: &str) {
    let policies = "  open: {limit: 6 per 1d}
  closed: {limit: 6 per 1d, on_outage: closed}
  local: {limit: 6 per 1d, on_outage: local}
";
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(server(store, policies).await);
    }
    let acquire = async |server: &Running, policy: &str| {
        server.post("/v1/acquire", &format!(r#"{{"policy":"{policy}","key":"k"}}"#)).await
    };
    assert_eq!(acquire(&servers[0], "closed").await.1["allowed"], json!(true));
    assert_eq!(reqwest::get(servers[0].url("/readyz")).await.unwrap().status().as_u16(), 200);
    backend.kill().unwrap();
    let mut granted_locally = 0;
    for server in &servers {
        let (status, reply) = acquire(server, "open").await;
        assert_eq!((status, &reply["degraded"]), (200, &json!("open")), "{reply}");
        let (status, reply) = acquire(server, "closed").await;
        assert_eq!((status, &reply["code"]), (503, &json!("store_unavailable")), "{reply}");
        for _ in 0..6 {
            let reply = acquire(server, "local").await.1;
            assert_eq!(reply["degraded"], "local", "{reply}");
            granted_locally += u64::from(reply["allowed"] == json!(true));
        }
        server.becomes_ready(503).await;
        assert_eq!(reqwest::get(server.url("/healthz")).await.unwrap().status().as_u16(), 200);
        let text = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
        assert!(text.contains(r#"policy="open",verdict="allowed",degraded="open""#), "{text}");
        let failed =
            format!(r#"tollgate_store_calls_total{{store="{name}",result="store_unavailable"}} "#);
        let calls = text.lines().find_map(|line| line.strip_prefix(&failed)).expect(&failed);
        assert_ne!(calls, "0", "{text}");
    }
    // Three servers with a third each: the limit together, and no more.
    assert_eq!(granted_locally, 6);
    backend.restart().unwrap();
    for server in &servers {
        // An open breaker lets probes through: repeat until the store answers.
        while acquire(server, "closed").await.0 != 200 {
            tokio::task::yield_now().await;
        }
        server.becomes_ready(200).await;
    }
}
