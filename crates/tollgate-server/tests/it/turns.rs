//! Three servers on one store, asked in turn, while a limit goes down and up again, one server
//! after the other: what is admitted is what the higher quota alone would admit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;
use tokio::task::JoinSet;
use tollgate::Limiter;
use tollgate::store::BoxStore;
use tollgate_proto::tollgate_v1 as pb;
use tollgate_proto::tollgate_v1::rate_limiter_client::RateLimiterClient;
use tollgate_server::engine::Engine;
use tollgate_server::policy::Policies;
use tollgate_server::{Config, Server};
use tonic::Code;
use tonic::transport::Channel;

use crate::charges::{each_shared_store, fresh};
use crate::support::{Resp, Running, config};

const HIGH: u64 = 100;
const LOW: u64 = 10;
/// How often the limit goes down and up again.
const TIMES: usize = 10;
const ACQUIRE: [&str; 3] = ["TG.ACQUIRE", "p", "shared"];
/// Calls of `CL.THROTTLE` with one burst or the other.
const CALLS: usize = 200;
/// Answers that clients get between two changes.
const BETWEEN: usize = 9;

fn quota(limit: u64, prefix: &str) -> Policies {
    let text = format!("policies: {{p: {{limit: {limit} per 30d, prefix: {prefix}}}}}");
    Config::of_text(&[], |_| None, Some(("t.yaml", &text))).unwrap().policies
}

/// The servers, and what their clients got.
struct Fleet {
    servers: Vec<Running>,
    grpc: Vec<RateLimiterClient<Channel>>,
    http: reqwest::Client,
    turn: AtomicUsize,
    answers: AtomicUsize,
    admitted: AtomicU64,
    ends: AtomicBool,
}

impl Fleet {
    /// Counts an answer; `None` is a request that was refused because of contention, which charges
    /// nothing.
    fn count(&self, allowed: Option<bool>) {
        self.admitted.fetch_add(u64::from(allowed == Some(true)), Relaxed);
        self.answers.fetch_add(1, Relaxed);
    }

    /// The next of the servers.
    fn next(&self) -> usize {
        self.turn.fetch_add(1, Relaxed) % self.servers.len()
    }

    async fn over_http(&self) -> Option<bool> {
        let request = self.http.post(self.servers[self.next()].url("/v1/acquire"));
        let answer = request.body(r#"{"policy":"p","key":"shared"}"#).send().await.unwrap();
        if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
            return None;
        }
        let body: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert!(body.get("degraded").is_none(), "{body}");
        Some(body["allowed"].as_bool().unwrap())
    }

    async fn over_grpc(&self) -> Option<bool> {
        let (policy, key) = ("p".to_owned(), "shared".to_owned());
        let request = pb::AcquireRequest { policy, key, ..pb::AcquireRequest::default() };
        match self.grpc[self.next()].clone().acquire(request).await {
            Ok(answer) => Some(answer.into_inner().allowed),
            Err(status) if status.code() == Code::ResourceExhausted => None,
            Err(status) => panic!("{status}"),
        }
    }

    /// Asks until the end, over one protocol.
    async fn ask(self: Arc<Self>, protocol: usize) {
        let mut connections = Vec::new();
        for server in &self.servers {
            connections.push(server.resp().await);
        }
        while !self.ends.load(Relaxed) {
            let allowed = match protocol {
                0 => self.over_http().await,
                1 => self.over_grpc().await,
                _ => over_resp(&mut connections[self.next()], &ACQUIRE, 1).await,
            };
            self.count(allowed);
        }
    }

    /// Waits until clients have got some more answers.
    async fn load(&self) {
        let enough = self.answers.load(Relaxed) + BETWEEN;
        while self.answers.load(Relaxed) < enough {
            tokio::task::yield_now().await;
        }
    }
}

/// The answer to a command whose first number is this one if it is allowed.
async fn over_resp(connection: &mut Resp, words: &[&str], allowed: u64) -> Option<bool> {
    match connection.reply(words).await {
        Value::Array(numbers) => Some(numbers[0] == allowed),
        error if error.as_str().is_some_and(|text| text.starts_with("-BUSY")) => None,
        error => panic!("{error}"),
    }
}

async fn a_limit_that_changes_mints_nothing(name: String, stores: [BoxStore; 3]) {
    let (mut servers, mut engines, mut grpc) = (Vec::new(), Vec::new(), Vec::new());
    for store in stores {
        let limiter = Limiter::builder(store).deadline(Duration::from_secs(60)).build();
        let server = Server::bind_engine(config(), Engine::new(limiter, quota(HIGH, &name)));
        let server = server.await.unwrap();
        engines.push(server.engine());
        servers.push(Running::of(server));
    }
    for server in &servers {
        grpc.push(server.grpc().await);
    }
    let fleet = Arc::new(Fleet {
        servers,
        grpc,
        http: reqwest::Client::new(),
        turn: AtomicUsize::new(0),
        answers: AtomicUsize::new(0),
        admitted: AtomicU64::new(0),
        ends: AtomicBool::new(false),
    });
    let mut clients = JoinSet::new();
    for client in 0..6 {
        clients.spawn(Arc::clone(&fleet).ask(client % 3));
    }
    // The key begins under the higher quota. Units that begin under the lower one are carried over
    // rounded up: where the clock of another server is behind, that is one unit too many.
    fleet.load().await;
    for limit in [LOW, HIGH].into_iter().cycle().take(2 * TIMES) {
        for engine in &engines {
            engine.replace_policies(quota(limit, &name));
            fleet.load().await;
        }
    }
    fleet.ends.store(true, Relaxed);
    clients.join_all().await;
    // What contention has left of the higher quota.
    loop {
        match fleet.over_http().await {
            Some(false) => break,
            answer => fleet.count(answer),
        }
    }
    assert_eq!(fleet.admitted.load(Relaxed), HIGH, "{name}");
    one_key_with_two_bursts_mints_nothing(&name, &fleet.servers).await;
    drop(engines);
    for server in Arc::into_inner(fleet).unwrap().servers {
        server.end().await;
    }
}

/// One key of `CL.THROTTLE`, asked with two bursts in turn: of one server after the other, and by
/// several clients at once.
async fn one_key_with_two_bursts_mints_nothing(key: &str, servers: &[Running]) {
    let [high, low] = [HIGH - 1, LOW - 1].map(|burst| burst.to_string());
    let words = |burst| ["CL.THROTTLE", key, burst, "1", "2592000"];
    let mut clients = Vec::new();
    for number in 0..3 {
        clients.push(servers[number % servers.len()].resp().await);
    }
    let mut admitted: usize = 0;
    for (turn, burst) in [&high, &low].into_iter().cycle().take(CALLS).enumerate() {
        let words = words(burst);
        let passed = match &mut clients[..] {
            // Every seventh time all of them at once.
            [a, b, c] if turn % 7 == 0 => {
                let all = tokio::join!(
                    over_resp(a, &words, 0),
                    over_resp(b, &words, 0),
                    over_resp(c, &words, 0)
                );
                [all.0, all.1, all.2].iter().filter(|passed| **passed == Some(true)).count()
            }
            all => usize::from(over_resp(&mut all[turn % 3], &words, 0).await == Some(true)),
        };
        admitted += passed;
    }
    loop {
        match over_resp(&mut clients[0], &words(&high), 0).await {
            Some(false) => break,
            answer => admitted += usize::from(answer == Some(true)),
        }
    }
    assert_eq!(admitted as u64, HIGH, "{key}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_changes_back_and_forth_under_load_mints_nothing() {
    each_shared_store(async |name, stores| {
        a_limit_that_changes_mints_nothing(fresh(name), stores).await;
    })
    .await;
}

#[tokio::test]
async fn one_key_with_two_bursts_mints_nothing_in_memory() {
    let server = Running::with(quota(HIGH, "memory")).await;
    let servers = [server];
    one_key_with_two_bursts_mints_nothing("k", &servers).await;
    let [server] = servers;
    server.end().await;
}
