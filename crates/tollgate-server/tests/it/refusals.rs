//! Real stores that answer and refuse, or freeze: the log, the metrics and readiness show it.

use std::io::{self, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tollgate_server::config::Setting;
use tollgate_server::{Config, Server};
use tollgate_test_servers::{Error, Folder, PgVersion, Postgres, Redis, wait};
use tracing::subscriber::DefaultGuard;

use crate::support::Running;

const POLICIES: &str = "policies:
  open: {limit: 1000000 per 1d}
  closed: {limit: 1000000 per 1d, on_outage: closed}
";
const ACQUIRE: &str = r#"{"policy":"closed","key":"k"}"#;

/// What servers of this thread have logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn capture() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false);
        let subscriber = subscriber.with_writer(move || writer.clone()).finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// A line that contains all of these texts.
    #[expect(clippy::print_stdout, reason = "what was logged explains a failure")]
    fn has(&self, texts: &[&str]) -> bool {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let found = text.lines().any(|line| texts.iter().all(|part| line.contains(part)));
        if !found {
            println!("no line has {texts:?}:\n{text}");
        }
        found
    }
}

async fn server(store: &str, deadline: &str) -> Running {
    let flags = [
        (Setting::Http, "127.0.0.1:0".to_owned()),
        (Setting::Grpc, "off".to_owned()),
        (Setting::Resp, "127.0.0.1:0".to_owned()),
        (Setting::Store, store.to_owned()),
        (Setting::Deadline, deadline.to_owned()),
    ];
    let config = Config::of_text(&flags, |_| None, Some(("t.yaml", POLICIES))).unwrap();
    Running::of(Server::bind(config).await.unwrap())
}

/// The value of a sample.
async fn sample(server: &Running, series: &str) -> u64 {
    let text = server.metrics().await;
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{series} ")));
    line.unwrap_or_else(|| unreachable!("{series} is not in\n{text}")).parse().unwrap()
}

async fn errors(server: &Running, code: &str) -> u64 {
    let labels = format!(r#"code="{code}",policy="closed""#);
    sample(server, &format!("tollgate_errors_total{{{labels}}}")).await
}

async fn calls(server: &Running, store: &str, result: &str) -> u64 {
    let labels = format!(r#"store="{store}",result="{result}""#);
    sample(server, &format!("tollgate_store_calls_total{{{labels}}}")).await
}

#[tokio::test]
async fn a_redis_out_of_memory_is_seen() {
    let redis = Redis::builder().max_memory(0, "noeviction").start().unwrap();
    let (log, _guard) = Log::capture();
    let server = server(&redis.url(), "60s").await;
    assert_eq!(server.post("/v1/acquire", ACQUIRE).await.0, 200);
    assert_eq!(
        (errors(&server, "store_full").await, calls(&server, "redis", "store_full").await),
        (0, 0)
    );
    server.becomes_ready(200).await;
    let mut client = redis.client().unwrap();
    client.call(&["CONFIG", "SET", "maxmemory", "1"]).unwrap().ok().unwrap();
    for _ in 0..3 {
        let (status, problem) = server.post("/v1/acquire", ACQUIRE).await;
        assert_eq!((status, &problem["code"]), (507, &Value::from("store_full")), "{problem}");
    }
    assert!(log.has(&["WARN", "no decision", "store_full", "closed", "(OOM)"]));
    assert_eq!(errors(&server, "store_full").await, 3);
    assert_eq!(calls(&server, "redis", "store_full").await, 3);
    let problem = server.becomes_ready(503).await;
    assert!(problem.contains("the store refuses writes") && problem.contains("(OOM)"), "{problem}");
    // No request is needed to see the end of it.
    client.call(&["CONFIG", "SET", "maxmemory", "0"]).unwrap().ok().unwrap();
    server.becomes_ready(200).await;
    assert_eq!(server.post("/v1/acquire", ACQUIRE).await.0, 200);
    server.end().await;
}

/// A replica answers reads.
#[tokio::test]
async fn a_read_only_replica_is_seen() {
    let redis = Redis::builder().config("replicaof 127.0.0.1 1").start().unwrap();
    let (log, _guard) = Log::capture();
    let server = server(&redis.url(), "60s").await;
    server.becomes_ready(200).await;
    let (status, problem) = server.post("/v1/acquire", ACQUIRE).await;
    assert_eq!((status, &problem["code"]), (503, &Value::from("store_unavailable")), "{problem}");
    assert!(log.has(&["WARN", "decided without the store", "closed", "READONLY"]));
    assert_eq!(errors(&server, "store_unavailable").await, 1);
    assert_ne!(calls(&server, "redis", "store_unavailable").await, 0);
    let problem = server.becomes_ready(503).await;
    assert!(
        problem.contains("the store refuses writes") && problem.contains("READONLY"),
        "{problem}"
    );
    redis.client().unwrap().call(&["REPLICAOF", "NO", "ONE"]).unwrap().ok().unwrap();
    server.becomes_ready(200).await;
    server.end().await;
}

/// Starts a session that locks every row and keeps them; returns once it has them.
fn lock_rows(postgres: &Postgres) -> Child {
    let locks = "BEGIN; SELECT FROM tollgate.limits FOR UPDATE; SELECT pg_sleep(600)";
    let mut psql = postgres.psql().unwrap();
    let psql = psql.args(["-X", "-q", "-c", locks, &postgres.url()]).stdout(Stdio::null());
    let psql = psql.spawn().unwrap();
    let holds = || match &*postgres.sql(&format!("SELECT count(*) {HOLDERS}"))? {
        "1" => Ok(()),
        others => Err(Error::new(format!("{others} sessions hold the rows"))),
    };
    wait::until_ok(Duration::from_secs(60), holds).unwrap();
    psql
}

/// The session that holds the rows.
const HOLDERS: &str = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";

#[tokio::test]
async fn locked_rows_are_seen_and_are_no_outage() {
    let postgres = Postgres::start(PgVersion::V15).unwrap();
    let (log, _guard) = Log::capture();
    let server = server(&format!("{}?connect_timeout=30", postgres.url()), "2s").await;
    while server.post("/v1/acquire", ACQUIRE).await.0 != 200 {}
    let mut psql = lock_rows(&postgres);
    let (status, problem) = server.post("/v1/acquire", ACQUIRE).await;
    let code = Value::from("conflict_exhausted");
    assert_eq!((status, &problem["code"]), (503, &code), "{problem}");
    assert!(log.has(&["WARN", "no decision", "conflict_exhausted", "closed", "held the keys"]));
    assert_eq!(errors(&server, "conflict_exhausted").await, 1);
    assert_eq!(calls(&server, "postgres", "conflict_exhausted").await, 1);
    // Locks of some rows are no reason to send no requests to this server.
    server.becomes_ready(200).await;
    postgres.sql(&format!("SELECT pg_terminate_backend(pid) {HOLDERS}")).unwrap();
    psql.wait().unwrap();
    assert_eq!(server.post("/v1/acquire", ACQUIRE).await.0, 200);
    server.end().await;
}

#[tokio::test]
async fn a_file_at_its_bound_is_seen() {
    let folder = Folder::new("sqlite").unwrap();
    let path = folder.path().join("limits.db");
    let (log, _guard) = Log::capture();
    let server = server(&format!("sqlite:{}?max_bytes=16777216", path.display()), "60s").await;
    let mut number = 0;
    loop {
        let requests: Vec<String> = (0..1_000)
            .map(|_| {
                number += 1;
                format!(r#"{{"policy":"closed","key":"{number:0500}"}}"#)
            })
            .collect();
        let body = format!(r#"{{"requests":[{}]}}"#, requests.join(","));
        let (_, reply) = server.post("/v1/acquire_many", &body).await;
        if reply.to_string().contains("store_full") {
            break;
        }
        assert!(number < 100_000, "the file is bounded: {}", reply["decisions"][0]);
    }
    assert!(log.has(&["WARN", "no decision", "store_full", "closed", "SQLite reported 13"]));
    assert_ne!(errors(&server, "store_full").await, 0);
    assert_ne!(calls(&server, "sqlite", "store_full").await, 0);
    server.end().await;
}

/// The limiter drops a call at its deadline: it counts all the same.
#[tokio::test]
async fn a_store_that_freezes_is_seen() {
    let redis = Redis::start().unwrap();
    let (log, _guard) = Log::capture();
    let server = server(&format!("{}?reply_timeout_ms=30000", redis.url()), "200ms").await;
    let acquire = async || server.post("/v1/acquire", r#"{"policy":"open","key":"k"}"#).await.1;
    while !acquire().await["degraded"].is_null() {}
    let before = calls(&server, "redis", "timeout").await;
    redis.stop_answering().unwrap();
    // At once: soon the breaker opens, and no call is made.
    let many = format!(r#"{{"requests":[{ACQUIRE},{ACQUIRE}]}}"#);
    let (reply, _) = tokio::join!(acquire(), server.post("/v1/acquire_many", &many));
    assert_eq!(reply["degraded"], "open");
    assert_eq!(calls(&server, "redis", "timeout").await, before + 2);
    let within = |seconds| {
        format!(r#"tollgate_store_duration_seconds_bucket{{le="{seconds}",store="redis"}}"#)
    };
    let slow = sample(&server, &within("+Inf")).await - sample(&server, &within("0.1")).await;
    assert!(slow > before, "{slow} calls of over 100 ms");
    assert!(log.has(&["WARN", "decided without the store", "timeout"]));
    redis.go_on().unwrap();
    server.becomes_ready(200).await;
    server.end().await;
}

/// A bound on bytes stops a table as a bound on keys does.
#[tokio::test]
async fn a_table_that_the_bound_on_bytes_stops_is_seen() {
    let server = server("memory:?memory=1048576", "60s").await;
    let refusals = r#"tollgate_memory_refusals_total{prefix="tollgate",policy="closed"}"#;
    server.post("/v1/acquire", ACQUIRE).await;
    assert_eq!(sample(&server, refusals).await, 0);
    for batch in 0..20 {
        let requests: Vec<String> =
            (0..1_000).map(|n| format!(r#"{{"policy":"closed","key":"{batch}-{n}"}}"#)).collect();
        server
            .post("/v1/acquire_many", &format!(r#"{{"requests":[{}]}}"#, requests.join(",")))
            .await;
    }
    assert_ne!(sample(&server, refusals).await, 0);
    server.end().await;
}
