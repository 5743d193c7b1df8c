//! Rights to give back: what a caller passes under a limit is bounded by the limit, whatever it
//! refunds, and a receipt gives back once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tollgate::ManualClock;
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::{Config, Server};
use tollgate_service::config::policies_from_yaml;
use tollgate_test_servers::Folder;
use tonic::{Code, Request};

use crate::support::{NOW, Running};

const CALLER: &str = "token-of-a-caller";
const ADMIN: &str = "token-of-an-admin";
const SECRET: &str = "shared-by-all-servers";
const LIMIT: u64 = 50;
async fn server(file: &str, secret: &str) -> Running {
    let variable = |name: &str| match name {
        "TOLLGATE_HTTP" | "TOLLGATE_GRPC" | "TOLLGATE_RESP" => Some("127.0.0.1:0".to_owned()),
        "TOLLGATE_TOKENS" => Some(CALLER.to_owned()),
        "TOLLGATE_ADMIN_TOKENS" => Some(ADMIN.to_owned()),
        "TOLLGATE_RECEIPT_SECRET" if !secret.is_empty() => Some(secret.to_owned()),
        _ => None,
    };
    let config = Config::of_text(&[], variable, Some(("t.yaml", file))).unwrap();
    Running::of(Server::bind(config).await.unwrap())
}

/// Posts JSON with a token; the status and the body.
async fn post(server: &Running, token: &str, path: &str, body: &Value) -> (u16, Value) {
    let request = reqwest::Client::new().post(server.url(path)).bearer_auth(token);
    let response = request.body(body.to_string()).send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
}

async fn acquire(server: &Running, policy: &str, cost: u64) -> Value {
    let body = json!({"policy": policy, "key": "k", "cost": cost, "receipt": true});
    post(server, CALLER, "/v1/acquire", &body).await.1
}

async fn refund(server: &Running, token: &str, receipt: &Value) -> (u16, Value) {
    post(server, token, "/v1/refund", &json!({"receipt": receipt})).await
}

fn with_token<T>(message: T, token: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

/// Acquires all and gives all back, a hundred times: a caller without receipts passes the limit.
#[tokio::test]
async fn a_caller_passes_the_limit_and_no_more_on_grpc_and_resp() {
    let file = format!("policies: {{p: {{limit: {LIMIT} per 1d}}}}");
    for protocol in ["grpc", "resp"] {
        let server = server(&file, "").await;
        let (mut grpc, mut resp) = (server.grpc().await, server.resp().await);
        assert_eq!(resp.call(&["AUTH", CALLER]).await, "+OK");
        let (limit, all) = (LIMIT.to_string(), u32::MAX.to_string());
        let (policy, key) = ("p".to_owned(), "k".to_owned());
        let mut passed = 0;
        for _ in 0..100 {
            let allowed = match protocol {
                "grpc" => {
                    let cost = Some(LIMIT);
                    let (policy, key) = (policy.clone(), key.clone());
                    let acquire =
                        pb::AcquireRequest { policy, key, cost, ..pb::AcquireRequest::default() };
                    let acquired = grpc.acquire(with_token(acquire, CALLER)).await.unwrap();
                    let (policy, key) = ("p".to_owned(), "k".to_owned());
                    let cost = Some(u64::from(u32::MAX));
                    let refund =
                        pb::RefundRequest { policy, key, cost, ..pb::RefundRequest::default() };
                    let refused = grpc.refund(with_token(refund, CALLER)).await.unwrap_err();
                    assert_eq!(refused.code(), Code::PermissionDenied);
                    acquired.into_inner().allowed
                }
                _ => {
                    let allowed = resp.five(&["TG.ACQUIRE", "p", "k", &limit]).await[0] == 1;
                    let refused = resp.call(&["TG.REFUND", "p", "k", &all]).await;
                    assert!(refused.starts_with("-NOPERM forbidden"), "{refused}");
                    allowed
                }
            };
            passed += if allowed { LIMIT } else { 0 };
        }
        assert_eq!(passed, LIMIT, "{protocol}");
        // An administrator may do what a caller may not.
        assert_eq!(resp.call(&["AUTH", ADMIN]).await, "+OK");
        assert_eq!(resp.reply(&["TG.REFUND", "p", "k", &all]).await[0], LIMIT);
        server.end().await;
    }
}

#[tokio::test]
async fn a_receipt_is_accepted_once_over_all_protocols() {
    let file = format!(
        "policies:
  p:
    limits: [{{name: second, limit: {LIMIT} per 1d}}, {{name: day, limit: 200 per 1d}}]
"
    );
    let server = Arc::new(server(&file, "").await);
    give_back_once(&[&server, &server], "p").await;
}

/// Sends one receipt a hundred times at once over all protocols of two servers.
pub(crate) async fn give_back_once(servers: &[&Arc<Running>; 2], policy: &str) {
    let bodies = [("other", 20), ("k", 10), ("k", 20)];
    let mut receipt = Value::Null;
    for (key, cost) in bodies {
        let body = json!({"policy": policy, "key": key, "cost": cost, "receipt": true});
        let charge = post(servers[0], CALLER, "/v1/acquire", &body).await.1;
        receipt = charge["receipt"].clone();
        assert!(receipt.is_string(), "{charge}");
    }
    let receipt = receipt.as_str().unwrap().to_owned();
    let (first, mut uses) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
    for number in 0..100 {
        let (server, receipt, first) =
            (Arc::clone(servers[number % 2]), receipt.clone(), Arc::clone(&first));
        uses.spawn(async move {
            let (units, replayed) = match number % 3 {
                0 => {
                    let (status, reply) = refund(&server, CALLER, &json!(receipt)).await;
                    assert_eq!(status, 200, "{reply}");
                    (reply["refunded"].clone(), reply["replayed"] == json!(true))
                }
                1 => {
                    let request =
                        pb::RefundRequest { receipt: Some(receipt), ..Default::default() };
                    let reply = server.grpc().await.refund(with_token(request, CALLER)).await;
                    let reply = reply.unwrap().into_inner();
                    (reply.refunded.into(), reply.replayed)
                }
                _ => {
                    let mut resp = server.resp().await;
                    let _not_needed = resp.call(&["AUTH", CALLER]).await;
                    let reply = resp.reply(&["TG.REFUND", &receipt]).await;
                    assert!(reply.is_array(), "{reply}");
                    (reply[0].clone(), reply[4] == json!(1))
                }
            };
            // The same answer each time, and it is marked.
            assert_eq!(units, json!(20));
            first.fetch_add(u64::from(!replayed), Relaxed);
        });
    }
    uses.join_all().await;
    assert_eq!(first.load(Relaxed), 1);
    let body = json!({"policy": policy, "key": "k"});
    let peek = post(servers[1], CALLER, "/v1/peek", &body).await.1;
    assert_eq!(peek["remaining"], LIMIT - 10, "{peek}");
}

/// A receipt of a server is accepted by those that share its secret, and by no other.
#[tokio::test]
async fn a_receipt_is_valid_where_the_secret_is() {
    let folder = Folder::new("receipts").unwrap();
    let path = folder.path().join("limits.db");
    let store = format!("store: 'sqlite:{}?lock_timeout_ms=60000'\ndeadline: 30s", path.display());
    let file = format!("{store}\npolicies: {{p: {{limit: 9 per 1d}}, gone: {{limit: 9 per 1d}}}}");
    let (one, two) = (server(&file, SECRET).await, server(&file, SECRET).await);
    let strange = server(&file, "another-secret-of-servers").await;
    let none = server(&file, "").await;
    let fewer = server(&format!("{store}\npolicies: {{p: {{limit: 9 per 1d}}}}"), SECRET).await;
    let receipt = acquire(&one, "p", 3).await["receipt"].clone();
    assert_eq!(refund(&strange, CALLER, &receipt).await.0, 400);
    assert_eq!(refund(&none, CALLER, &receipt).await.0, 400);
    let (status, reply) = refund(&two, CALLER, &receipt).await;
    assert_eq!((status, &reply["refunded"], &reply["remaining"]), (200, &json!(3), &json!(9)));
    assert_eq!(refund(&one, CALLER, &receipt).await.1["replayed"], json!(true));
    let of_gone = acquire(&one, "gone", 3).await["receipt"].clone();
    let (status, problem) = refund(&fewer, CALLER, &of_gone).await;
    assert_eq!((status, &problem["field"]), (400, &json!("receipt")), "{problem}");
    for server in [one, two, strange, none, fewer] {
        server.end().await;
    }
}

/// A receipt expires before its record does: what was forgotten cannot be given back again.
#[tokio::test]
async fn an_old_receipt_is_refused() {
    let clock = ManualClock::at(NOW);
    let policies = policies_from_yaml("policies: {p: {limit: 10 per 1d}}").unwrap();
    let server = Running::with_clock(policies, &clock).await;
    let body = json!({"policy": "p", "key": "k", "cost": 4, "request_id": "i"}).to_string();
    let receipt = server.post("/v1/acquire", &body).await.1["receipt"].clone();
    let refund = json!({"receipt": receipt}).to_string();
    clock.advance(Duration::from_secs(299));
    let replay = server.post("/v1/acquire", &body).await.1;
    assert_eq!((&replay["replayed"], &replay["receipt"]), (&json!(true), &receipt));
    assert_eq!(server.post("/v1/refund", &refund).await.1["refunded"], 4);
    clock.advance(Duration::from_secs(1));
    assert_eq!(server.post("/v1/refund", &refund).await.1["replayed"], json!(true));
    clock.advance(Duration::from_secs(1));
    let (status, problem) = server.post("/v1/refund", &refund).await;
    assert_eq!((status, &problem["field"]), (400, &json!("receipt")));
    assert!(problem["detail"].as_str().unwrap().contains("300 s"), "{problem}");
    server.end().await;
}

/// Memory forgets charges and records with the process, and so it accepts no receipts of another.
#[tokio::test]
async fn a_receipt_ends_with_the_memory_that_it_is_for() {
    let file = "policies: {p: {limit: 10 per 1d}}";
    let (one, next) = (server(file, SECRET).await, server(file, SECRET).await);
    let receipt = acquire(&one, "p", 3).await["receipt"].clone();
    acquire(&next, "p", 3).await;
    assert_eq!(refund(&next, CALLER, &receipt).await.0, 400);
    assert_eq!(refund(&one, CALLER, &receipt).await.0, 200);
    one.end().await;
    next.end().await;
}

/// Where only administrators have tokens, clients without one are callers, over RESP too.
#[tokio::test]
async fn an_administrator_authenticates_where_callers_need_not() {
    let variable = |name: &str| match name {
        "TOLLGATE_HTTP" | "TOLLGATE_GRPC" | "TOLLGATE_RESP" => Some("127.0.0.1:0".to_owned()),
        "TOLLGATE_ADMIN_TOKENS" => Some(ADMIN.to_owned()),
        _ => None,
    };
    let config = Config::of_text(&[], variable, None).unwrap();
    let server = Running::of(Server::bind(config).await.unwrap());
    let mut resp = server.resp().await;
    let units = ["TG.REFUND", "default", "k", "3"];
    assert_eq!(resp.five(&["TG.ACQUIRE", "default", "k", "3"]).await[0], 1);
    assert!(resp.call(&units).await.starts_with("-NOAUTH"));
    assert!(resp.call(&["AUTH", "nonsense-of-16-bytes"]).await.starts_with("-WRONGPASS"));
    assert!(resp.call(&units).await.starts_with("-NOAUTH"));
    assert_eq!(resp.call(&["AUTH", ADMIN]).await, "+OK");
    assert_eq!(resp.reply(&units).await[0], 3);
    server.end().await;
}

/// Ids that push older ones out of memory do not push out the use of a receipt.
#[tokio::test]
async fn a_flood_of_ids_does_not_make_a_receipt_valid_again() {
    let file = "policies: {p: {limit: 1000 per 1d, request_ids: {max: 32}}}";
    let server = server(file, "").await;
    let receipt = acquire(&server, "p", 100).await["receipt"].clone();
    assert_eq!(refund(&server, CALLER, &receipt).await.1["refunded"], 100);
    let flood = |key: &str| {
        let one = |id| json!({"policy": "p", "key": key, "request_id": format!("{key}{id}")});
        json!({"requests": (0..400).map(one).collect::<Vec<_>>()})
    };
    for key in ["k", "other", "third"] {
        let (status, reply) = post(&server, CALLER, "/v1/acquire_many", &flood(key)).await;
        assert_eq!((status, &reply["decisions"][399]["allowed"]), (200, &json!(true)));
    }
    let again = refund(&server, CALLER, &receipt).await.1;
    assert_eq!((&again["refunded"], &again["replayed"]), (&json!(100), &json!(true)), "{again}");
    let peek = post(&server, CALLER, "/v1/peek", &json!({"policy": "p", "key": "k"})).await.1;
    assert_eq!(peek["remaining"], 600);
    server.end().await;
}
