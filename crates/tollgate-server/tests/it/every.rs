//! Every protocol on every store: two keys in one request, ranges, and settlements, under load.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tollgate::Limiter;
use tollgate::store::{BoxStore, MultiKey, Store};
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::engine::Engine;
use tollgate_server::policy::Policies;
use tollgate_server::{Config, Server};

use crate::charges::{each_store, fresh};
use crate::settle::settle_once;
use crate::support::{Running, config};

const CLIENTS: usize = 200;
const LIMIT: u64 = 50;
const USER: u64 = 1_000;
/// The most that a range asks for.
const MOST: u64 = 7;

#[derive(Clone, Copy, Debug)]
enum Protocol {
    Http,
    Grpc,
    Resp,
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Http, Protocol::Grpc, Protocol::Resp];

fn policies(prefix: &str) -> Policies {
    let text = format!(
        "policies:
  user: {{limit: {USER} per 30d, prefix: {prefix}, on_outage: closed}}
  address: {{limit: {LIMIT} per 30d, prefix: {prefix}, on_outage: closed}}
  two:
    prefix: {prefix}
    on_outage: closed
    limits: [{{name: a, limit: 50 per 30d}}, {{name: b, limit: 90 per 30d}}]
"
    );
    Config::of_text(&[], |_| None, Some(("t.yaml", &text))).unwrap().policies
}

async fn server(store: BoxStore, prefix: &str) -> Arc<Running> {
    let limiter = Limiter::builder(store).deadline(Duration::from_secs(60)).build();
    let engine = Engine::new(limiter, policies(prefix));
    Arc::new(Running::of(Server::bind_engine(config(), engine).await.unwrap()))
}

impl Protocol {
    /// Charges both policies one unit, or up to `most`: how many units were granted.
    async fn acquire(self, server: &Running, key: &str, most: Option<u64>) -> u64 {
        match self {
            Self::Http => {
                let cost = most.map_or(json!(1), |most| json!({"min": 1, "max": most}));
                let charge = |policy| json!({"policy": policy, "key": key, "cost": cost});
                let body = json!({"charges": [charge("user"), charge("address")]}).to_string();
                let (status, answer) = server.post("/v1/acquire", &body).await;
                assert_eq!(status, 200, "{answer}");
                let exactly = || u64::from(answer["allowed"] == json!(true));
                answer["granted"].as_u64().unwrap_or_else(exactly)
            }
            Self::Grpc => {
                let charge = |policy: &str| pb::Charge {
                    policy: policy.to_owned(),
                    key: key.to_owned(),
                    cost: Some(1),
                    max_cost: most,
                };
                let charges = vec![charge("user"), charge("address")];
                let request = pb::AcquireRequest { charges, ..pb::AcquireRequest::default() };
                let answer = server.grpc().await.acquire(request).await.unwrap().into_inner();
                answer.granted.unwrap_or(u64::from(answer.allowed))
            }
            Self::Resp => {
                let cost = most.map_or("1".to_owned(), |most| format!("1..{most}"));
                let words = ["TG.ACQUIREALL", "2", "user", key, &cost, "address", key, &cost];
                let reply = server.resp().await.reply(&words).await;
                let place = if most.is_some() { 8 } else { 0 };
                reply[place].as_u64().unwrap_or_else(|| panic!("{reply}"))
            }
        }
    }

    /// What is left of a policy.
    async fn left(self, server: &Running, policy: &str, key: &str) -> u64 {
        match self {
            Self::Http => {
                let body = json!({"policy": policy, "key": key}).to_string();
                server.post("/v1/peek", &body).await.1["remaining"].as_u64().unwrap()
            }
            Self::Grpc => {
                let (policy, key) = (policy.to_owned(), key.to_owned());
                let request = pb::AcquireRequest { policy, key, ..pb::AcquireRequest::default() };
                server.grpc().await.peek(request).await.unwrap().into_inner().remaining
            }
            Self::Resp => {
                let words = ["TG.PEEK", policy, key];
                server.resp().await.reply(&words).await[2].as_u64().unwrap()
            }
        }
    }
}

/// Of two hundred requests at once over two keys, of which one denies: the other is charged for
/// what was allowed, and for nothing else. Ranges hand out exactly what there is.
async fn both_or_none(server: &Arc<Running>, name: &str, (is_atomic, protocol): (bool, Protocol)) {
    for most in [None, Some(MOST)] {
        let key = format!("{protocol:?}-{most:?}");
        let mut requests = JoinSet::new();
        for _ in 0..CLIENTS {
            let (server, key) = (Arc::clone(server), key.clone());
            requests.spawn(async move { protocol.acquire(&server, &key, most).await });
        }
        let granted: u64 = requests.join_all().await.into_iter().sum();
        // Where parts are charged in turn, a denial may meet units that are about to be undone.
        let is_exact = granted == LIMIT || (!is_atomic && granted < LIMIT);
        assert!(is_exact, "{name} over {protocol:?}: {granted}");
        let left = [
            protocol.left(server, "user", &key).await,
            protocol.left(server, "address", &key).await,
        ];
        assert_eq!(left, [USER - granted, LIMIT - granted], "{name} over {protocol:?}");
    }
}

async fn over_every_protocol(name: String, store: BoxStore) {
    let is_atomic = store.capability().multi_key == MultiKey::Atomic;
    let server = server(store, &name).await;
    for protocol in PROTOCOLS {
        both_or_none(&server, &name, (is_atomic, protocol)).await;
    }
    for (to, left) in [(5, 45), (35, 15), (70, 0)] {
        settle_once(&[&server, &server], "two", to, left).await;
    }
    Arc::into_inner(server).unwrap().end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_protocol_is_exact_on_every_store() {
    each_store(async |name, store| {
        over_every_protocol(fresh(&format!("every-{name}")), store).await;
    })
    .await;
}
