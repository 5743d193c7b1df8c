//! The policies of a running server are replaced under load from every protocol.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader as AsyncBufReader};
use tokio::net::TcpStream;
use tokio::sync::RwLock;
use tokio::task::JoinSet;
use tollgate_proto::tollgate_v1::AcquireRequest;
use tollgate_proto::tollgate_v1::rate_limiter_client::RateLimiterClient;
use tonic::transport::Channel;

use crate::{Ended, TOLLGATE};

/// Units of the policy `p`, whose period changes and whose limit does not.
const LIMIT: u64 = 300;
/// The limits of the policy `q`, one after the other.
const LIMITS: [u64; 6] = [100, 90, 110, 110, 50, 120];
/// All limits together grant what the highest of them grants alone.
const GRANTED: u64 = 120;
/// Long enough for any machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A server, its file, and what it logs.
struct Served {
    child: Ended,
    file: PathBuf,
    log: Arc<Mutex<String>>,
    http: SocketAddr,
    grpc: SocketAddr,
    resp: SocketAddr,
    client: reqwest::Client,
}

impl Served {
    fn start(name: &str, text: &str) -> Self {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&file, text).unwrap();
        let any = "127.0.0.1:0";
        let child = Command::new(TOLLGATE)
            .args(["serve", "--http", any, "--grpc", any, "--resp", any, "--config"])
            .arg(&file)
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Ended(child);
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut at = |name: &str| {
            let line = lines.find(|line| line.starts_with(name)).unwrap();
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        let (http, grpc, resp) = (at("HTTP"), at("gRPC"), at("RESP"));
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, written) = (child.0.stderr.take().unwrap(), Arc::clone(&log));
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                written.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, file, log, http, grpc, resp, client: reqwest::Client::new() }
    }

    /// Replaces the file as editors and deployments do: whole or not at all.
    fn replace(&self, text: &str, signal: bool) {
        let next = self.file.with_extension("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(&next, &self.file).unwrap();
        if signal {
            let pid = self.child.0.id().to_string();
            assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        }
    }

    fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Posts to the HTTP interface; status and body.
    async fn post(&self, path: &str, body: String) -> (u16, String) {
        let url = format!("http://{}{path}", self.http);
        let response = self.client.post(url).body(body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    /// Whether a policy is in force.
    async fn has(&self, policy: &str) -> bool {
        let body = format!(r#"{{"policy":"{policy}","key":"probe"}}"#);
        self.post("/v1/peek", body).await.0 == 200
    }

    /// How many files were refused.
    async fn refused(&self) -> u64 {
        let url = format!("http://{}/metrics", self.http);
        let text = self.client.get(url).send().await.unwrap().text().await.unwrap();
        let line = r#"tollgate_reloads_total{result="refused"} "#;
        let count = text.lines().find_map(|found| found.strip_prefix(line));
        count.map_or(0, |count| count.parse().unwrap())
    }
}

/// Waits until a condition holds.
async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let wait = async { while !done().await {} };
    assert!(tokio::time::timeout(TEST_TIMEOUT, wait).await.is_ok(), "timeout: {what}");
}

/// A unit takes months to come back, with either period.
fn text(round: usize) -> String {
    let days = 50_000 - 10_000 * (round % 3);
    let limit = LIMITS.get(round).or(LIMITS.last()).unwrap();
    format!(
        "policies:\n  p: {{limit: {LIMIT} per {days}d}}\n  q: {{limit: {limit} per 50000d}}\n  \
         round-{round}: {{limit: 1 per 1s}}\n"
    )
}

/// A caller of one of the protocols.
enum Caller {
    Http(reqwest::Client, String),
    Grpc(RateLimiterClient<Channel>),
    Resp(AsyncBufReader<TcpStream>),
}

impl Caller {
    async fn new(nth: usize, served: &Served) -> Self {
        match nth % 3 {
            0 => Self::Http(reqwest::Client::new(), format!("http://{}/v1/acquire", served.http)),
            1 => {
                let channel = Channel::from_shared(format!("http://{}", served.grpc)).unwrap();
                Self::Grpc(RateLimiterClient::new(channel.connect().await.unwrap()))
            }
            _ => Self::Resp(AsyncBufReader::new(TcpStream::connect(served.resp).await.unwrap())),
        }
    }

    /// Whether it is allowed. The test fails on every error.
    async fn acquire(&mut self, policy: &str) -> bool {
        match self {
            Self::Http(client, url) => {
                let body = format!(r#"{{"policy":"{policy}","key":"hot"}}"#);
                let reply = client.post(&*url).body(body).send().await.unwrap();
                let (status, text) = (reply.status().as_u16(), reply.text().await.unwrap());
                assert_eq!(status, 200, "{text}");
                text.contains("\"allowed\":true")
            }
            Self::Grpc(client) => {
                let (policy, key) = (policy.to_owned(), "hot".to_owned());
                let request = AcquireRequest { policy, key, ..AcquireRequest::default() };
                client.acquire(request).await.unwrap().into_inner().allowed
            }
            Self::Resp(stream) => {
                let command = format!("TG.ACQUIRE {policy} hot\r\n");
                stream.write_all(command.as_bytes()).await.unwrap();
                let mut reply = String::new();
                for _ in 0..6 {
                    stream.read_line(&mut reply).await.unwrap();
                }
                assert!(reply.starts_with("*5\r\n:"), "{reply}");
                reply.starts_with("*5\r\n:1\r\n")
            }
        }
    }
}

/// Units granted to all callers.
#[derive(Default)]
struct Tally {
    p: AtomicU64,
    q: AtomicU64,
    rounds: AtomicU64,
    ends: AtomicBool,
    /// Held during a request to `q`: its limit changes while none is under way.
    requesting: RwLock<()>,
}

async fn call_until_end(mut caller: Caller, tally: Arc<Tally>) {
    while !tally.ends.load(Relaxed) {
        tally.p.fetch_add(u64::from(caller.acquire("p").await), Relaxed);
        let _requesting = tally.requesting.read().await;
        tally.q.fetch_add(u64::from(caller.acquire("q").await), Relaxed);
        tally.rounds.fetch_add(1, Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_under_load_fails_no_request_and_refills_nothing() {
    let served = Served::start("reload-under-load.yaml", &text(0));
    let (tally, mut callers) = (Arc::new(Tally::default()), JoinSet::new());
    for nth in 0..6 {
        callers.spawn(call_until_end(Caller::new(nth, &served).await, Arc::clone(&tally)));
    }
    for round in 1..24 {
        // Until every caller has sent requests, and nothing is left of `q`.
        let rounds = tally.rounds.load(Relaxed);
        until("requests", async || tally.rounds.load(Relaxed) > rounds + 24).await;
        let mut caller = Caller::new(round, &served).await;
        while caller.acquire("q").await {
            tally.q.fetch_add(1, Relaxed);
        }
        let no_requests = tally.requesting.write().await;
        // Some changes are found without a signal: the file is read every second.
        served.replace(&text(round), round % 8 != 0);
        let name = format!("round-{round}");
        until(&name, async || served.has(&name).await).await;
        drop(no_requests);
        if round % 6 == 0 {
            let before = served.refused().await;
            served.replace(&format!("{}  oops: {{limit: lots}}\n", text(round + 1)), true);
            until("a refusal", async || served.refused().await > before).await;
            assert!(served.has(&name).await && !served.has("oops").await);
            let why = format!("{}:5: policies.oops.limit", served.file.display());
            until("a reason", async || served.log().contains(&why)).await;
        }
    }
    tally.ends.store(true, Relaxed);
    while let Some(ended) = callers.join_next().await {
        ended.unwrap();
    }
    let (p, q, rounds) = (tally.p.load(Relaxed), tally.q.load(Relaxed), tally.rounds.load(Relaxed));
    println!("{rounds} rounds of 6 callers: {p} units of p, {q} units of q");
    assert_eq!((p, q), (LIMIT, GRANTED), "{}", served.log());
}

/// The level of the log, what changed, and that the file is gone and back, in the log of a process.
#[tokio::test]
async fn a_process_says_what_a_reload_changed_and_logs_at_the_new_level() {
    let first = "policies: {p: {limit: 5 per 1d}}\n";
    let served = Served::start("reload-says.yaml", first);
    let acquire = async || served.post("/v1/acquire", r#"{"policy":"p","key":"k"}"#.into()).await;
    acquire().await;
    assert!(!served.log().contains(": decided "));
    let second = "log_level: debug\ndeadline: 1s\nhash_secret: s3cret-of-hashes\n\
                  policies: {p: {limit: 7 per 1d}, q: {limit: 1 per 1h}}\n";
    served.replace(second, true);
    until("the policy", async || served.has("q").await).await;
    until("the end of the reload", async || served.log().contains("was reloaded")).await;
    let is_logged = async || {
        acquire().await;
        served.log().contains(": decided ")
    };
    until("a decision in the log", is_logged).await;
    let log = served.log();
    for said in [
        "policy=p change=limit p: from 5 per 1d to 7 per 1d",
        "policy=q change=added, limit q: 1 per 1h",
        "setting=\"log_level\" change=\"from info to debug\"",
        "a changed setting needs a restart setting=\"deadline\" change=\"from 100ms to 1s\"",
        "setting=\"hash_secret\" change=\"changed\"",
    ] {
        assert!(log.contains(said), "{said} is not in\n{log}");
    }
    assert!(!log.contains("s3cret"), "{log}");
    std::fs::remove_file(&served.file).unwrap();
    until("the absence", async || served.log().contains("a file is gone")).await;
    assert!(served.has("q").await);
    served.replace(first, false);
    until("the return", async || served.log().contains("a file is back")).await;
    until("the first policies", async || !served.has("q").await).await;
    assert_eq!(served.log().matches("a file is gone").count(), 1, "{}", served.log());
}
