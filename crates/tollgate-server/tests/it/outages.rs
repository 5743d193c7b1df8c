//! The store does not answer: the reply of each outage mode on each protocol.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollgate::clock::ClockHealth;
use tollgate::store::{BoxStore, Memory};
use tollgate::{Clock, Limiter, ManualClock, Micros, OutageMode, Quota};
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::engine::Engine;
use tollgate_server::policy::Policies;
use tollgate_server::{Config, Server};
use tollgate_testkit::fault::{Fault, Faulty};
use tonic::Code as Grpc;
use tonic_types::StatusExt;

use crate::support::{NOW, Running, config};

const POLICIES: &str = "
policies:
  open: {limit: 2 per 1d, on_outage: open}
  closed: {limit: 2 per 1d, on_outage: closed}
  local: {limit: 2 per 1d, on_outage: local}
  shadow: {limit: 2 per 1d, on_outage: closed, shadow: true}
";

fn policies() -> Policies {
    Config::of_text(&[], |_| None, Some(("t.yaml", POLICIES))).unwrap().policies
}

/// A server whose store fails from the first call on.
async fn broken() -> Running {
    Running::of(broken_server().await)
}

async fn broken_server() -> Server {
    let clock = ManualClock::at(NOW);
    let store = Faulty::scripted(Memory::new(), clock.clone(), vec![Fault::After; 1_000]);
    let limiter = Limiter::with_clock(BoxStore::new(store), clock).build();
    let engine = Engine::new(limiter, policies());
    Server::bind_engine(config(), engine).await.unwrap()
}

#[tokio::test]
async fn open_admits_and_marks_the_decision() {
    let server = broken().await;
    for _ in 0..5 {
        let (status, reply) = server.post("/v1/acquire", r#"{"policy":"open","key":"k"}"#).await;
        assert_eq!((status, &reply["allowed"]), (200, &json!(true)));
        assert_eq!(reply["degraded"], "open");
    }
    let gate = reqwest::get(server.url("/v1/gate?policy=open&key=k")).await.unwrap();
    assert_eq!(gate.status().as_u16(), 204);
    assert_eq!(gate.headers()["tollgate-degraded"], "open");
    let request = pb::AcquireRequest {
        policy: "open".to_owned(),
        key: "k".to_owned(),
        ..pb::AcquireRequest::default()
    };
    let reply = server.grpc().await.acquire(request).await.unwrap().into_inner();
    assert_eq!((reply.allowed, reply.degraded()), (true, pb::Degraded::Open));
    assert_eq!(server.resp().await.five(&["TG.ACQUIRE", "open", "k"]).await[0], 1);
    server.end().await;
}

#[tokio::test]
async fn closed_is_a_failure_of_the_service_and_not_of_the_caller() {
    let server = broken().await;
    let body = r#"{"policy":"closed","key":"k"}"#;
    let (status, problem) = server.post("/v1/acquire", body).await;
    assert_eq!((status, &problem["code"]), (503, &json!("store_unavailable")));
    let gate = reqwest::get(server.url("/v1/gate?policy=closed&key=k")).await.unwrap();
    assert_eq!(
        (gate.status().as_u16(), &gate.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    let many = server.post("/v1/acquire_many", &format!(r#"{{"requests":[{body}]}}"#)).await.1;
    assert_eq!(many["decisions"][0]["error"]["code"], "store_unavailable");
    let request = pb::AcquireRequest {
        policy: "closed".to_owned(),
        key: "k".to_owned(),
        ..pb::AcquireRequest::default()
    };
    let status = server.grpc().await.acquire(request).await.unwrap_err();
    assert_eq!(status.code(), Grpc::Unavailable);
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
    let reply = server.resp().await.call(&["TG.ACQUIRE", "closed", "k"]).await;
    assert!(reply.starts_with("-UNAVAILABLE store_unavailable"), "{reply}");
    // What could never pass needs no store to be refused.
    let (status, reply) =
        server.post("/v1/acquire", r#"{"policy":"closed","key":"k","cost":3}"#).await;
    assert_eq!((status, &reply["verdict"]), (200, &json!("never")));
    server.end().await;
}

#[tokio::test]
async fn local_grants_its_share_and_peeks_and_refunds_need_the_store() {
    let server = broken().await;
    let mut allowed = 0;
    for _ in 0..5 {
        let reply = server.post("/v1/acquire", r#"{"policy":"local","key":"k"}"#).await.1;
        assert_eq!(reply["degraded"], "local");
        allowed += u64::from(reply["allowed"] == json!(true));
    }
    assert_eq!(allowed, 2);
    for path in ["/v1/peek", "/v1/forecast", "/v1/refund", "/v1/reset"] {
        let (status, problem) = server.post(path, r#"{"policy":"open","key":"k"}"#).await;
        assert_eq!((status, &problem["code"]), (503, &json!("store_unavailable")), "{path}");
    }
    server.end().await;
}

/// A shadow policy admits on every protocol when nothing can be decided; `degraded` in an outage.
async fn shadow_admits(server: &Running, degraded: Option<&str>) {
    let body = r#"{"policy":"shadow","key":"k"}"#;
    let (status, reply) = server.post("/v1/acquire", body).await;
    assert_eq!((status, &reply["verdict"]), (200, &json!("allowed")), "{reply}");
    assert_eq!((&reply["shadow"], &reply["retry_after_ms"]), (&json!("denied"), &json!(0)));
    assert_eq!((&reply["degraded"], &reply["limit"]), (&json!(degraded), &json!(2)));
    let many = server.post("/v1/acquire_many", &format!(r#"{{"requests":[{body}]}}"#)).await.1;
    assert_eq!(many["decisions"][0]["shadow"], "denied", "{many}");
    let gate = reqwest::get(server.url("/v1/gate?policy=shadow&key=k")).await.unwrap();
    assert_eq!(gate.status().as_u16(), 204);
    assert_eq!(server.resp().await.five(&["TG.ACQUIRE", "shadow", "k"]).await[0], 1);
    let text = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
    let degraded = degraded.unwrap_or("no");
    let counted =
        format!(r#"policy="shadow",verdict="denied",degraded="{degraded}",shadow="yes"}} 4"#);
    assert!(text.contains(&counted), "{text}");
}

#[tokio::test]
async fn a_shadow_never_denies_when_the_store_is_down() {
    let server = broken().await;
    shadow_admits(&server, Some("closed")).await;
    // A peek is never decided without the store.
    let (status, _) = server.post("/v1/peek", r#"{"policy":"shadow","key":"k"}"#).await;
    assert_eq!(status, 503);
    server.end().await;
}

#[tokio::test]
async fn a_shadow_never_denies_when_the_store_is_busy() {
    let clock = ManualClock::at(NOW);
    let store = BoxStore::new(Faulty::scripted(Memory::new(), clock.clone(), []));
    let limiter = Limiter::with_clock(store, clock).max_in_flight(0).build();
    let engine = Engine::new(limiter, policies());
    let server = Running::of(Server::bind_engine(config(), engine).await.unwrap());
    shadow_admits(&server, None).await;
    let text = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
    assert!(
        text.contains(r#"tollgate_errors_total{code="queue_full",policy="shadow"} 4"#),
        "{text}"
    );
    // Other policies fail, and so do invalid requests to a shadow policy.
    let (status, problem) = server.post("/v1/acquire", r#"{"policy":"open","key":"k"}"#).await;
    assert_eq!((status, &problem["code"]), (503, &json!("queue_full")));
    let (status, _) = server.post("/v1/acquire", r#"{"policy":"shadow","key":""}"#).await;
    assert_eq!(status, 400);
    server.end().await;
}

#[tokio::test]
async fn a_reload_reaches_connections_that_are_open() {
    let server = broken_server().await;
    let engine = server.engine();
    let server = Running::of(server);
    let mut client = server.resp().await;
    let words = ["CL.THROTTLE", "k", "1", "1", "86400"];
    assert_eq!(client.five(&words).await[0], 0);
    let closed = Policies::new(10, Quota::per_day(1), OutageMode::Closed, []).unwrap();
    engine.replace_policies(closed);
    let reply = client.call(&words).await;
    assert!(reply.starts_with("-UNAVAILABLE store_unavailable"), "{reply}");
    server.end().await;
}

#[tokio::test]
async fn readiness_probes_the_store_at_most_once_a_second() {
    let clock = ManualClock::at(NOW);
    let store = Faulty::scripted(Memory::new(), clock.clone(), [Fault::Before; 2]);
    let store = Arc::new(store);
    let limiter = Limiter::with_clock(BoxStore::new(Arc::clone(&store)), clock.clone()).build();
    let engine = Engine::new(limiter, policies());
    let server = Running::of(Server::bind_engine(config(), engine).await.unwrap());
    let ready = async || {
        let status = reqwest::get(server.url("/readyz")).await.unwrap().status().as_u16();
        (status, store.calls())
    };
    // A call that was not sent is tried once more.
    assert_eq!(ready().await, (503, 2));
    assert_eq!(ready().await, (503, 2));
    clock.advance(Duration::from_millis(999));
    assert_eq!(ready().await, (503, 2));
    clock.advance(Duration::from_millis(1));
    assert_eq!(ready().await, (200, 3));
    assert_eq!(ready().await, (200, 3));
    // After the clock was set back, the cached result is not served.
    clock.set(NOW);
    assert_eq!(ready().await, (200, 4));
    server.end().await;
}

/// A clock that is ahead of the wall clock of its host.
#[derive(Debug)]
struct Ahead(ManualClock, Micros);

impl Clock for Ahead {
    fn now(&self) -> Micros {
        self.0.now()
    }

    fn health(&self) -> ClockHealth {
        ClockHealth::ahead_by(self.1)
    }
}

#[tokio::test]
async fn a_clock_far_ahead_is_not_ready_where_other_processes_decide_by_theirs() {
    for (ahead, shared, status) in [(9, true, 200), (11, true, 503), (11, false, 200)] {
        let clock = ManualClock::at(NOW);
        let store = match shared {
            true => BoxStore::new(Faulty::scripted(Memory::new(), clock.clone(), [])),
            false => BoxStore::new(Memory::new()),
        };
        let limiter = Limiter::with_clock(store, Ahead(clock, ahead * 1_000_000)).build();
        let engine = Engine::new(limiter, policies());
        let server = Running::of(Server::bind_engine(config(), engine).await.unwrap());
        let response = reqwest::get(server.url("/readyz")).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{ahead} s");
        let text = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
        assert!(text.contains(&format!("tollgate_clock_ahead_seconds {ahead}.0\n")), "{text}");
        server.end().await;
    }
}
