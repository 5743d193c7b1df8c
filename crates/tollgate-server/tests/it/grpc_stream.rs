//! `AcquireStream`: an outcome for each request, in their order.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tollgate::{ManualClock, Quota};
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::policy::Policies;
use tollgate_server::{Config, Server};
use tollgate_service::config::policies_from_yaml;
use tonic::{Code, Request};

use crate::support::{NOW, Running, config, slow};

const POLICIES: &str = "policies:
  one: {limit: 3 per 1h}
  two: {limits: [{name: s, limit: 2 per 1s}, {name: h, limit: 9 per 1h}]}
  queue: {algorithm: leaky_bucket, rate: 1 per 1s, queue: 3}
  shadow: {limit: 1 per 1s, shadow: true}
";

fn request(policy: &str, key: &str) -> pb::AcquireRequest {
    let (policy, key) = (policy.to_owned(), key.to_owned());
    pb::AcquireRequest { policy, key, ..pb::AcquireRequest::default() }
}

fn charge(policy: &str) -> pb::Charge {
    let (policy, key) = (policy.to_owned(), "k".to_owned());
    pb::Charge { policy, key, ..pb::Charge::default() }
}

/// Requests of every kind, right and wrong.
fn requests() -> Vec<pb::AcquireRequest> {
    let charges = |policies: &[&str]| pb::AcquireRequest {
        charges: policies.iter().map(|policy| charge(policy)).collect(),
        ..pb::AcquireRequest::default()
    };
    let mut all: Vec<_> = (0..5).map(|_| request("one", "k")).collect();
    all.push(pb::AcquireRequest { cost: Some(4), ..request("one", "other") });
    all.push(pb::AcquireRequest { cost: Some(0), ..request("one", "k") });
    all.push(pb::AcquireRequest { max_cost: Some(9), ..request("one", "ranged") });
    all.extend([request("none", "k"), request("one", ""), request("", "k")]);
    all.extend([request("queue", "k"), request("queue", "k"), request("queue", "k")]);
    all.extend([request("shadow", "k"), request("shadow", "k")]);
    all.extend([charges(&["one", "two"]), charges(&["two", "shadow"]), charges(&["two"])]);
    all.extend([charges(&["one"; 17]), charges(&[]), charges(&["two", "none"])]);
    for id in ["i", "i", ""] {
        let request_id = Some(id.to_owned());
        all.push(pb::AcquireRequest { request_id, receipt: true, ..request("two", "id") });
    }
    all
}

#[tokio::test]
async fn outcomes_are_those_of_single_requests_in_their_order() {
    let policies = policies_from_yaml(POLICIES).unwrap();
    let server = Running::with_clock(policies.clone(), &ManualClock::at(NOW)).await;
    let stream = tokio_stream::iter(requests());
    let outcomes = server.grpc().await.acquire_stream(stream).await.unwrap().into_inner();
    let outcomes: Vec<_> =
        outcomes.map(|outcome| outcome.unwrap().outcome.unwrap()).collect().await;
    server.end().await;
    let server = Running::with_clock(policies, &ManualClock::at(NOW)).await;
    let mut client = server.grpc().await;
    assert_eq!(outcomes.len(), requests().len());
    for (request, outcome) in requests().into_iter().zip(outcomes) {
        let about = format!("{request:?}");
        match (client.acquire(request).await, outcome) {
            (Ok(decision), pb::outcome::Outcome::Decision(streamed)) => {
                // Receipts are those of one server.
                let receipt = streamed.receipt.clone();
                let single = decision.into_inner();
                assert_eq!(single.receipt.is_some(), receipt.is_some(), "{about}");
                assert_eq!(pb::Decision { receipt, ..single }, streamed, "{about}");
            }
            (Err(status), pb::outcome::Outcome::Error(error)) => {
                assert!(status.message().contains(&error.message), "{about}: {status}");
                let field = error.field.unwrap_or_default();
                assert!(status.message().contains(&field), "{about}: {status}");
            }
            (single, streamed) => panic!("{about}: {single:?}, {streamed:?}"),
        }
    }
    server.end().await;
}

#[tokio::test]
async fn each_request_is_answered_as_it_comes_and_metrics_count_it() {
    let server = Running::with(slow()).await;
    let (requests, stream) = mpsc::channel(1);
    let stream = ReceiverStream::new(stream);
    let outcomes = server.grpc().await.acquire_stream(stream).await.unwrap();
    let mut outcomes = outcomes.into_inner();
    for left in (0..10).rev() {
        requests.send(request("", "k")).await.unwrap();
        let Some(pb::outcome::Outcome::Decision(decision)) =
            outcomes.message().await.unwrap().unwrap().outcome
        else {
            panic!("a decision");
        };
        assert_eq!((decision.allowed, decision.remaining), (true, left));
    }
    drop(requests);
    assert!(outcomes.message().await.unwrap().is_none());
    let metrics = server.metrics().await;
    let decided = "tollgate_decisions_total{policy=\"default\",verdict=\"allowed\",\
                   degraded=\"no\",shadow=\"no\"} 10\n";
    assert!(metrics.contains(decided), "{metrics}");
    let timed = "tollgate_request_duration_seconds_count{protocol=\"grpc\"} 10\n";
    assert!(metrics.contains(timed), "{metrics}");
    server.end().await;
}

/// More than the windows of both sides hold: nothing is lost, and nothing is out of order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_takes_nothing_is_held_back_and_others_are_answered() {
    const REQUESTS: u64 = 50_000;
    let key = "k".repeat(400);
    let policies = Policies::of_default(REQUESTS, Quota::per_day(1)).unwrap();
    let server = Running::with_clock(policies, &ManualClock::at(NOW)).await;
    let (requests, stream) = mpsc::channel(1);
    let sending = tokio::spawn(async move {
        for _ in 0..REQUESTS {
            requests.send(request("", &key)).await.unwrap();
        }
    });
    let stream = ReceiverStream::new(stream);
    let outcomes = server.grpc().await.acquire_stream(stream).await.unwrap();
    let mut bystander = server.grpc().await;
    for number in 0..100 {
        let decision = bystander.acquire(request("", &format!("other:{number}"))).await;
        assert_eq!(decision.unwrap().into_inner().remaining, REQUESTS - 1);
    }
    assert!(!sending.is_finished(), "the requests of 50,000 outcomes were read");
    let mut outcomes = outcomes.into_inner();
    for left in (0..REQUESTS).rev() {
        let outcome = outcomes.message().await.unwrap().unwrap().outcome;
        let Some(pb::outcome::Outcome::Decision(decision)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(decision.remaining, left);
    }
    sending.await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn a_stream_needs_a_token_and_does_not_delay_the_shutdown() {
    let of_file = Config::of_text(&[], |_| None, Some(("t.yaml", "tokens: a-token-of-a-caller")));
    let mut config = config();
    config.auth = of_file.unwrap().auth;
    // The test must not pass because the drain time ends.
    config.drain = Duration::from_secs(3_600);
    let server = Running::of(Server::bind(config).await.unwrap());
    let mut client = server.grpc().await;
    let open = || tokio_stream::once(request("", "k")).chain(tokio_stream::pending());
    let refused = client.acquire_stream(open()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    let mut permitted = Request::new(open());
    let token = "Bearer a-token-of-a-caller".parse().unwrap();
    permitted.metadata_mut().insert("authorization", token);
    let mut outcomes = client.acquire_stream(permitted).await.unwrap().into_inner();
    assert!(outcomes.message().await.unwrap().is_some());
    let ending = server.shut_down();
    let ended = outcomes.message().await.unwrap_err();
    assert_eq!(ended.code(), Code::Unavailable, "{ended}");
    tokio::time::timeout(Duration::from_secs(60), ending).await.expect("it ends").unwrap();
}

#[tokio::test]
async fn streams_are_few_and_their_messages_are_short() {
    let server = Running::with(slow()).await;
    let mut client = server.grpc().await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        let open = tokio_stream::pending::<pb::AcquireRequest>();
        streams.push(client.acquire_stream(open).await.unwrap());
    }
    let open = tokio_stream::pending::<pb::AcquireRequest>();
    let refused = client.acquire_stream(open).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    drop(streams);
    let long = tokio_stream::once(request("", &"k".repeat(100_000)));
    let mut outcomes = server.grpc().await.acquire_stream(long).await.unwrap().into_inner();
    assert_eq!(outcomes.message().await.unwrap_err().code(), Code::OutOfRange);
    server.end().await;
}
