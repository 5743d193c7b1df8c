//! Final costs of charges over every protocol and on every store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tollgate::store::BoxStore;
use tollgate::{Cost, Limiter};
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::Config;
use tollgate_server::engine::{
    CheckRequest, Engine, FinalCosts, RequestedCharge, SettleRequest, SettleResponse,
};
use tollgate_server::policy::Policies;
use tollgate_service::auth::{Rights, Role};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::charges::{each_store, fresh};
use crate::support::Running;

const CHARGES: u64 = 50;
/// How often each settlement is sent, at the same time.
const COPIES: u64 = 4;
/// Units of the policy `tokens`, of which one comes back in 43 minutes.
const TOKENS: u64 = 1_000;
const PERIOD_MS: u64 = 30 * 86_400_000;

fn policies(text: &str) -> Policies {
    Config::of_text(&[], |_| None, Some(("t.yaml", text))).unwrap().policies
}

/// Two subjects, one of which is settled.
async fn receipt(engine: &Engine, name: &str, cost: u64) -> String {
    let tokens = RequestedCharge::new("tokens", name).cost(Cost::new(cost).unwrap());
    let charges = [tokens, RequestedCharge::new("requests", name)];
    let answer = engine.acquire(CheckRequest::listed(&charges).receipt(true)).await.unwrap();
    assert!(answer.decision.is_allowed(), "{name}");
    answer.receipt.unwrap_or_else(|| panic!("{name}: no receipt"))
}

async fn settle(engine: &Engine, receipt: &str, tokens: u64) -> SettleResponse {
    let costs = [("tokens".into(), tokens)];
    let request = SettleRequest { receipt, costs: FinalCosts::Named(&costs) };
    engine.settle(request, &Rights::of(Role::Caller)).await.unwrap()
}

/// Charges of two keys, of which one is settled down, up and into debt while others are, each by
/// several copies at once: exactly what was used is spent, and each settlement is applied once.
async fn settles_exactly(name: String, store: BoxStore) {
    let limiter = Limiter::builder(store).deadline(Duration::from_secs(60)).build();
    let policies = policies(&format!(
        "policies:
  tokens: {{limit: {TOKENS} per 30d, prefix: settle, on_outage: closed}}
  requests: {{algorithm: sliding_log, limit: 500 per 30d, prefix: settle, on_outage: closed}}
"
    ));
    let engine = Arc::new(Engine::new(limiter, policies));
    let (late, too_much) = (receipt(&engine, &name, 4).await, receipt(&engine, &name, 4).await);
    let mut charges = JoinSet::new();
    for number in 0..CHARGES {
        let (engine, name) = (Arc::clone(&engine), name.clone());
        charges.spawn(async move { (receipt(&engine, &name, 4).await, number % 9) });
    }
    let first = Arc::new(AtomicU64::new(0));
    let mut settlements = JoinSet::new();
    let mut used = 4 + 4;
    for (receipt, tokens) in charges.join_all().await {
        used += tokens;
        for _ in 0..COPIES {
            let (engine, first, receipt) =
                (Arc::clone(&engine), Arc::clone(&first), receipt.clone());
            settlements.spawn(async move {
                let settled = settle(&engine, &receipt, tokens).await;
                let units = (settled.refunded(), settled.charged(), settled.dropped());
                assert_eq!(units, (4_u64.saturating_sub(tokens), tokens.saturating_sub(4), 0));
                first.fetch_add(u64::from(!settled.standing.replayed), Relaxed);
            });
        }
    }
    settlements.join_all().await;
    assert_eq!(first.load(Relaxed), CHARGES, "{name}: each is applied once");
    let peek =
        async |policy: &str| engine.peek(CheckRequest::new(policy, &name)).await.unwrap().decision;
    assert_eq!(peek("tokens").await.remaining, TOKENS - used, "{name}");
    assert_eq!(peek("requests").await.remaining, 500 - CHARGES - 2, "{name}");

    // Into debt, which the wait of the next denial states.
    let into_debt = settle(&engine, &late, TOKENS + 200).await;
    assert_eq!((into_debt.charged(), into_debt.dropped()), (TOKENS + 196, 0), "{name}");
    used += TOKENS + 196;
    let denied = peek("tokens").await;
    assert_eq!((denied.is_allowed(), denied.remaining), (false, 0), "{name}");
    let unit_ms = PERIOD_MS / TOKENS;
    let wait_ms = denied.retry_after_ms.unwrap();
    assert_eq!(wait_ms.div_ceil(unit_ms), used - TOKENS + 1, "{name}: {wait_ms} ms");
    // Up to the largest debt, and no further.
    let dropped = settle(&engine, &too_much, 5 * TOKENS).await;
    assert_eq!(dropped.charged(), 2 * TOKENS - used, "{name}");
    assert_eq!(dropped.charged() + dropped.dropped(), 5 * TOKENS - 4, "{name}");
    engine.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settlements_are_exact_and_applied_once_on_every_store() {
    each_store(async |name, store| settles_exactly(fresh(name), store).await).await;
}

const CALLER: &str = "token-of-a-caller";

/// Sends one settlement a hundred times at once over all protocols of two servers, of a charge of
/// 20 units under a policy of which `limit` are granted: it is applied once, and every reply is
/// equal.
pub(crate) async fn settle_once(servers: &[&Arc<Running>; 2], policy: &str, to: u64, left: u64) {
    let key = format!("settled-to-{to}");
    let body = json!({"policy": policy, "key": key, "cost": 20, "receipt": true}).to_string();
    let charge = servers[0].post("/v1/acquire", &body).await.1;
    let receipt = charge["receipt"].as_str().unwrap_or_else(|| panic!("{charge}")).to_owned();
    let expected = [20_u64.saturating_sub(to), to.saturating_sub(20), 0, left];
    let (first, mut uses) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
    for number in 0..100 {
        let (server, receipt, first) =
            (Arc::clone(servers[number % 2]), receipt.clone(), Arc::clone(&first));
        uses.spawn(async move {
            let (numbers, replayed) = match number % 3 {
                0 => {
                    let body = json!({"receipt": receipt, "cost": to}).to_string();
                    let (status, reply) = server.post("/v1/settle", &body).await;
                    assert_eq!(status, 200, "{reply}");
                    let number = |name: &str| reply[name].as_u64().unwrap();
                    let names = ["refunded", "charged", "dropped", "remaining"];
                    (names.map(number), reply["replayed"] == json!(true))
                }
                1 => {
                    let reply = over_grpc(&server, &receipt, Some(to), &[]).await.unwrap();
                    let numbers = [reply.refunded, reply.charged, reply.dropped, reply.remaining];
                    (numbers, reply.replayed)
                }
                _ => {
                    let words = ["TG.SETTLE", &receipt, &to.to_string()];
                    let reply = server.resp().await.reply(&words).await;
                    let number = |place: usize| reply[place].as_u64().unwrap();
                    ([0, 1, 2, 4].map(number), reply[6] == json!(1))
                }
            };
            assert_eq!(numbers, expected);
            first.fetch_add(u64::from(!replayed), Relaxed);
        });
    }
    uses.join_all().await;
    assert_eq!(first.load(Relaxed), 1);
    // Another cost is another request, on every server.
    let status = over_grpc(servers[1], &receipt, Some(to + 1), &[]).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    for words in [["TG.SETTLE", &receipt, "1"].as_slice(), &["TG.REFUND", &receipt]] {
        let reply = servers[0].resp().await.call(words).await;
        assert!(reply.starts_with("-CONFLICT"), "{reply}");
    }
    let body = json!({"policy": policy, "key": key}).to_string();
    assert_eq!(servers[1].post("/v1/peek", &body).await.1["remaining"], left);
}

async fn over_grpc(
    server: &Running,
    receipt: &str,
    cost: Option<u64>,
    costs: &[(&str, u64)],
) -> Result<pb::SettleResponse, Status> {
    let costs = costs.iter().map(|(name, cost)| ((*name).to_owned(), *cost)).collect();
    let request = pb::SettleRequest { receipt: receipt.to_owned(), cost, costs };
    server.grpc().await.settle(request).await.map(tonic::Response::into_inner)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_is_applied_once_over_all_protocols() {
    let limits = "[{name: a, limit: 50 per 30d}, {name: b, limit: 90 per 30d}]";
    let text = format!("policies: {{p: {{limits: {limits}}}}}");
    let server = Arc::new(Running::with(policies(&text)).await);
    for (to, left) in [(5, 45), (35, 15), (70, 0)] {
        settle_once(&[&server, &server], "p", to, left).await;
    }
    Arc::into_inner(server).unwrap().end().await;
}

const TWO: &str = "policies:
  two: {limits: [{name: second, limit: 10 per 30d}, {name: day, limit: 20 per 30d}]}
  other: {limits: [{name: day, limit: 30 per 30d}]}
";

/// Final costs over gRPC: one for all limits, and those of single ones.
type Costs = (Option<u64>, &'static [(&'static str, u64)]);

/// Costs by limit, and what is wrong, over gRPC and RESP.
#[tokio::test]
async fn grpc_and_resp_name_the_limits_that_are_settled() {
    let server = Running::with(policies(TWO)).await;
    let mut resp = server.resp().await;
    let words = ["TG.ACQUIREALL", "2", "two", "a", "2", "other", "b", "3", "RECEIPT"];
    let mut receipt = async || resp.reply(&words).await[6].as_str().unwrap().to_owned();
    let [of_grpc, of_resp] = [receipt().await, receipt().await];

    let wrong: [(Costs, &str); 5] = [
        ((None, &[]), "cost"),
        ((Some(1), &[("second", 1)]), "costs"),
        ((Some(1), &[]), "cost"),
        ((None, &[("day", 1)]), "costs"),
        ((None, &[("x", 1)]), "costs"),
    ];
    for ((cost, costs), field) in wrong {
        let status = over_grpc(&server, &of_grpc, cost, costs).await.unwrap_err();
        let violations = status.get_details_bad_request().unwrap().field_violations;
        assert_eq!((status.code(), &*violations[0].field), (Code::InvalidArgument, field));
    }
    let costs = [("other/day", 1), ("second", 5)];
    let settled = over_grpc(&server, &of_grpc, None, &costs).await.unwrap();
    assert_eq!((settled.refunded, settled.charged, settled.remaining), (2, 3, 3));
    let each = settled.limits.iter().map(|one| {
        (&*one.policy, &*one.name, one.refunded, one.charged, one.dropped, one.remaining)
    });
    let expected =
        [("two", "second", 0, 3, 0, 3), ("two", "day", 0, 0, 0, 16), ("other", "day", 2, 0, 0, 26)];
    assert_eq!(each.collect::<Vec<_>>(), expected);

    let receipt = &*of_resp;
    let wrong: [(&[&str], &str); 7] = [
        (&["TG.SETTLE"], "arguments"),
        (&["TG.SETTLE", receipt], "arguments"),
        (&["TG.SETTLE", receipt, "day", "1", "x"], "arguments"),
        (&["TG.SETTLE", receipt, "-1"], "cost"),
        (&["TG.SETTLE", receipt, "1"], "cost"),
        (&["TG.SETTLE", receipt, "day", "1"], "costs"),
        (&["TG.SETTLE", "no-receipt", "1"], "receipt"),
    ];
    for (words, field) in wrong {
        let reply = resp.call(words).await;
        assert!(reply.starts_with("-ERR ") && reply.contains(field), "{words:?}: {reply}");
    }
    // The other receipt has left 5 units of it: 20 is the ceiling with the largest debt.
    let words = ["TG.SETTLE", receipt, "limits[2]", "0", "two/second", "20"];
    let settled = resp.reply(&words).await;
    let limits = settled[7].as_array().unwrap().iter();
    let each: Vec<Value> =
        limits.map(|one| json!([one[1], one[0], one[2], one[3], one[4], one[6]])).collect();
    let expected = json!([
        ["two", "second", 0, 13, 5, 0],
        ["two", "day", 0, 0, 0, 16],
        ["other", "day", 3, 0, 0, 29]
    ]);
    assert_eq!(json!(each), expected, "{settled}");
    assert_eq!((&settled[0], &settled[1], &settled[2]), (&json!(3), &json!(13), &json!(5)));
    // In version 3 a map.
    resp.send(b"HELLO 3\r\n").await;
    let _properties = resp.value().await;
    let again = resp.reply(&words).await;
    assert_eq!((&again["replayed"], &again["charged"]), (&json!(true), &json!(13)), "{again}");
    assert_eq!(again["limits"][0]["dropped"], 5, "{again}");
    server.end().await;
}

/// A token of a caller is enough to be charged more, over gRPC and RESP too.
#[tokio::test]
async fn grpc_and_resp_ask_for_the_right_to_give_back() {
    let variable = |name: &str| match name {
        "TOLLGATE_HTTP" | "TOLLGATE_GRPC" | "TOLLGATE_RESP" => Some("127.0.0.1:0".to_owned()),
        "TOLLGATE_TOKENS" => Some(CALLER.to_owned()),
        _ => None,
    };
    let file = "policies: {p: {limit: 10 per 30d, refunds: admin}}";
    let config = Config::of_text(&[], variable, Some(("t.yaml", file))).unwrap();
    let server = Running::of(tollgate_server::Server::bind(config).await.unwrap());
    let mut resp = server.resp().await;
    assert_eq!(resp.call(&["AUTH", CALLER]).await, "+OK");
    let charged = resp.reply(&["TG.ACQUIRE", "p", "k", "2", "RECEIPT"]).await;
    let receipt = charged[6].as_str().unwrap();
    let refused = resp.call(&["TG.SETTLE", receipt, "1"]).await;
    assert!(refused.starts_with("-NOPERM forbidden"), "{refused}");
    let with_token = |cost| {
        let (receipt, cost) = (receipt.to_owned(), Some(cost));
        let message = pb::SettleRequest { receipt, cost, ..Default::default() };
        let mut request = tonic::Request::new(message);
        let bearer = format!("Bearer {CALLER}").parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
        request
    };
    let mut grpc = server.grpc().await;
    let refused = grpc.settle(with_token(0)).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert_eq!(grpc.settle(with_token(3)).await.unwrap().into_inner().charged, 1);
    assert_eq!(resp.reply(&["TG.SETTLE", receipt, "3"]).await[6], 1, "replayed");
    server.end().await;
}
