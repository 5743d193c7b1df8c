//! Several keys in one request, over every protocol and on every store.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tollgate::dynamodb::{self, DynamoDb};
use tollgate::store::{BoxStore, MultiKey, Store};
use tollgate::{Cost, Limiter};
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::Config;
use tollgate_server::engine::{CheckRequest, Engine, RequestedCharge};
use tollgate_server::policy::Policies;
use tollgate_server::store::open;
use tollgate_test_servers::{Folder, PgVersion, shared};
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::Running;

const CLIENTS: u64 = 200;
const LIMIT: u64 = 50;

fn policies(text: &str) -> Policies {
    Config::of_text(&[], |_| None, Some(("t.yaml", text))).unwrap().policies
}

fn user_and_address(name: &str) -> Policies {
    policies(&format!(
        "policies:
  user: {{limit: 1000 per 1d, prefix: {name}, on_outage: closed}}
  address: {{limit: {LIMIT} per 1d, prefix: {name}, on_outage: closed}}
"
    ))
}

/// Of two hundred requests over two keys, on one store: the denials of one key charge the other
/// nothing, and ranges take exactly what there is.
async fn charges_both_or_none(name: &str, store: BoxStore) {
    let is_atomic = store.capability().multi_key == MultiKey::Atomic;
    let deadline = Duration::from_secs(60);
    let limiter = Limiter::builder(store).deadline(deadline).build();
    let engine = Arc::new(Engine::new(limiter, user_and_address(name)));
    let mut requests = JoinSet::new();
    for _ in 0..CLIENTS {
        let engine = Arc::clone(&engine);
        requests.spawn(async move {
            let charges =
                [RequestedCharge::new("user", "ada"), RequestedCharge::new("address", "a")];
            engine.acquire(CheckRequest::listed(&charges)).await.unwrap().decision.is_allowed()
        });
    }
    let allowed = requests.join_all().await.into_iter().filter(|is| *is).count() as u64;
    // Where parts are charged in turn, a denial may meet units that are about to be undone.
    assert!(allowed == LIMIT || (!is_atomic && allowed < LIMIT), "{name}: {allowed}");
    let left = async |policy: &str, key: &str| {
        engine.peek(CheckRequest::new(policy, key)).await.unwrap().decision.remaining
    };
    let both = (left("user", "ada").await, left("address", "a").await);
    assert_eq!(both, (1_000 - allowed, LIMIT - allowed), "{name}");

    let mut requests = JoinSet::new();
    for _ in 0..CLIENTS {
        let engine = Arc::clone(&engine);
        requests.spawn(async move {
            let range = |charge: RequestedCharge<'static>| charge.up_to(Cost::new(7).ok());
            let user = range(RequestedCharge::new("user", "bob"));
            let charges = [user, range(RequestedCharge::new("address", "b"))];
            engine.acquire(CheckRequest::listed(&charges)).await.unwrap().granted.unwrap()
        });
    }
    let granted: u64 = requests.join_all().await.into_iter().sum();
    assert!(granted == LIMIT || (!is_atomic && granted < LIMIT), "{name}: {granted}");
    let both = (left("user", "bob").await, left("address", "b").await);
    assert_eq!(both, (1_000 - granted, LIMIT - granted), "{name}");
    engine.close().await;
}

/// A name that no earlier run has used: servers of a process are shared by its tests.
pub(crate) fn fresh(store: &str) -> String {
    format!("charges-{store}-{}", std::process::id())
}

const SLOW: &str = "connect_timeout_ms=60000&reply_timeout_ms=60000";

fn redis_url() -> String {
    format!("{}?{SLOW}", shared::redis().url())
}

fn cluster_url() -> String {
    let nodes = shared::redis_cluster().urls().join(",").replace("redis://", "");
    format!("redis-cluster://{nodes}?{SLOW}")
}

/// A file of its own, with a lock timeout for a busy machine.
fn sqlite_url(name: &str) -> (Folder, String) {
    let folder = Folder::new(name).unwrap();
    let path = folder.path().join("limits.db");
    let url = format!("sqlite:{}?lock_timeout_ms=60000", path.display());
    (folder, url)
}

fn postgres_url() -> String {
    format!("{}?connect_timeout=30", shared::postgres(PgVersion::V15).url())
}

async fn dynamodb(table: &str) -> BoxStore {
    let url = shared::dynamodb().url(table);
    let config: dynamodb::Config = url.parse().unwrap();
    let minute = Duration::from_secs(60);
    let config = config.credentials("test", "test").connect_timeout(minute);
    let config = config.operation_timeout(minute);
    DynamoDb::migrate(config.clone()).await.unwrap();
    BoxStore::new(DynamoDb::open(config).unwrap())
}

/// Does the same on every store that a server has, one after the other: the name and the store.
pub(crate) async fn each_store(act: impl AsyncFn(&str, BoxStore)) {
    let opened = async |url: &str| open(url, None).await.unwrap();
    act("memory", opened("memory:").await).await;
    act("redis", opened(&redis_url()).await).await;
    act("cluster", opened(&cluster_url()).await).await;
    let (_folder, file) = sqlite_url("each-store");
    act("sqlite", opened(&file).await).await;
    act("postgres", opened(&postgres_url()).await).await;
    act("denokv", opened(&shared::denokv().url()).await).await;
    act("dynamodb", dynamodb("server-each-store").await).await;
}

/// Does the same on every store that servers share: its name, and one for each of three servers.
pub(crate) async fn each_shared_store(act: impl AsyncFn(&str, [BoxStore; 3])) {
    let three = async |url: &str| {
        let one = async || open(url, None).await.unwrap();
        [one().await, one().await, one().await]
    };
    act("redis", three(&redis_url()).await).await;
    act("cluster", three(&cluster_url()).await).await;
    let (_folder, file) = sqlite_url("each-shared-store");
    act("sqlite", three(&file).await).await;
    act("postgres", three(&postgres_url()).await).await;
    act("denokv", three(&shared::denokv().url()).await).await;
    let one = async || dynamodb("server-each-store").await;
    act("dynamodb", [one().await, one().await, one().await]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_at_once_leave_the_other_key_uncharged_on_every_store() {
    each_store(async |name, store| charges_both_or_none(&fresh(name), store).await).await;
}

fn both(cost: u64) -> pb::AcquireRequest {
    let charge = |policy: &str, key: &str| pb::Charge {
        policy: policy.to_owned(),
        key: key.to_owned(),
        cost: Some(cost),
        max_cost: None,
    };
    let charges = vec![charge("user", "ada"), charge("address", "a")];
    pb::AcquireRequest { charges, ..pb::AcquireRequest::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_at_once_leave_the_other_key_uncharged_over_grpc_and_resp() {
    let server = Arc::new(Running::with(user_and_address("p")).await);
    let grpc = server.grpc().await;
    let mut requests = JoinSet::new();
    for number in 0..CLIENTS {
        let (server, mut grpc) = (Arc::clone(&server), grpc.clone());
        requests.spawn(async move {
            if number % 2 == 0 {
                return grpc.acquire(both(1)).await.unwrap().into_inner().allowed;
            }
            let words = ["TG.ACQUIREALL", "2", "user", "ada", "1", "address", "a", "1"];
            server.resp().await.reply(&words).await[0] == 1
        });
    }
    let allowed = requests.join_all().await.into_iter().filter(|is| *is).count() as u64;
    assert_eq!(allowed, LIMIT);
    let mut client = server.resp().await;
    let left = client.reply(&["TG.PEEK", "user", "ada"]).await[2].clone();
    assert_eq!(left, json!(1_000 - LIMIT));
    drop((client, grpc));
    Arc::into_inner(server).unwrap().end().await;
}

fn range(cost: Option<u64>, max_cost: Option<u64>) -> pb::AcquireRequest {
    pb::AcquireRequest {
        policy: "address".to_owned(),
        key: "a".to_owned(),
        cost,
        max_cost,
        ..pb::AcquireRequest::default()
    }
}

#[tokio::test]
async fn grpc_takes_charges_and_ranges_in_every_method() {
    let server = Running::with(user_and_address("p")).await;
    let mut client = server.grpc().await;
    let peeked = client.peek(both(3)).await.unwrap().into_inner();
    assert_eq!((peeked.allowed, &*peeked.policy, peeked.remaining), (true, "address", LIMIT));
    let allowed = client.acquire(both(3)).await.unwrap().into_inner();
    assert_eq!((allowed.binding(), allowed.remaining), ("address", LIMIT - 3));
    let left: Vec<u64> = allowed.limits.iter().map(|limit| limit.remaining).collect();
    assert_eq!(left, [997, LIMIT - 3]);
    let charges = both(1).charges;
    let forecast = pb::ForecastRequest { charges: charges.clone(), ..Default::default() };
    let forecast = client.forecast(forecast).await.unwrap().into_inner();
    assert_eq!((forecast.spendable_now, forecast.limit), (LIMIT - 3, LIMIT));
    let limits = pb::LimitsRequest { charges, ..Default::default() };
    let limits = client.limits(limits).await.unwrap().into_inner();
    let named: Vec<_> = limits.limits.iter().map(|one| (&*one.policy, one.limit)).collect();
    assert_eq!((named, limits.shadow), (vec![("user", 1_000), ("address", LIMIT)], false));
    let one = pb::LimitsRequest { policy: "user".to_owned(), key: "k".to_owned(), charges: vec![] };
    assert_eq!(client.limits(one).await.unwrap().into_inner().limits[0].renewal, "steady");
    let granted = client.acquire(range(Some(2), Some(100))).await.unwrap().into_inner();
    assert_eq!((granted.granted, granted.remaining), (Some(LIMIT - 3), 0));
    assert_eq!(granted.limits[0].granted, Some(LIMIT - 3));
    let denied = client.acquire(range(None, Some(100))).await.unwrap().into_inner();
    assert_eq!((denied.allowed, denied.granted), (false, Some(0)));
    server.end().await;
}

#[tokio::test]
async fn grpc_names_the_charge_that_is_wrong() {
    let server = Running::with(user_and_address("p")).await;
    let mut client = server.grpc().await;
    let wrong = |change: fn(&mut pb::AcquireRequest)| {
        let mut request = both(1);
        change(&mut request);
        request
    };
    let cases = [
        (range(Some(3), Some(2)), Code::InvalidArgument, "cost"),
        (range(Some(3), Some(0)), Code::InvalidArgument, "max_cost"),
        (wrong(|it| it.key = "k".to_owned()), Code::InvalidArgument, "charges"),
        (wrong(|it| it.cost = Some(1)), Code::InvalidArgument, "charges"),
        (wrong(|it| it.charges[1].cost = Some(0)), Code::InvalidArgument, "charges[1].cost"),
        (wrong(|it| it.charges[1].policy = "x".to_owned()), Code::NotFound, "charges[1].policy"),
        (
            wrong(|it| it.charges = vec![pb::Charge::default(); 17]),
            Code::InvalidArgument,
            "charges",
        ),
    ];
    for (request, code, field) in cases {
        let status = client.acquire(request.clone()).await.unwrap_err();
        let named = status.get_details_bad_request();
        let named = named.map(|details| details.field_violations[0].field.clone());
        assert_eq!(status.code(), code, "{status:?}");
        if code == Code::InvalidArgument {
            assert_eq!(named.as_deref(), Some(field), "{status:?}");
        } else {
            assert!(status.message().contains(field), "{status:?}");
        }
        if field == "charges" && request.charges.len() > 16 {
            continue;
        }
        let batch = pb::AcquireManyRequest { requests: vec![both(1), request] };
        let decisions = client.acquire_many(batch).await.unwrap().into_inner().decisions;
        let Some(pb::outcome::Outcome::Error(error)) = &decisions[1].outcome else {
            panic!("{decisions:?}");
        };
        assert_eq!(error.field(), format!("requests[1].{field}"));
    }
    server.end().await;
}
