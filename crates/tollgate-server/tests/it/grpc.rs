//! The gRPC interface.

use std::time::Duration;

use tollgate::{ManualClock, Quota};
use tollgate_proto::ratelimit_v1 as compatible;
use tollgate_proto::ratelimit_v1::rate_limiter_client::RateLimiterClient as CompatibleClient;
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::policy::Policies;
use tollgate_service::config::policies_from_yaml;
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{NOW, Running, slow};

const ID: &str = "6f1c9a52-0d5e-4c7e-9b1a-2f3c4d5e6f70";

fn of(key: &str, cost: u64, request_id: Option<&str>) -> pb::AcquireRequest {
    let (key, request_id) = (key.to_owned(), request_id.map(str::to_owned));
    pb::AcquireRequest { key, cost: Some(cost), request_id, ..pb::AcquireRequest::default() }
}

#[tokio::test]
async fn a_decision_has_every_field() {
    let clock = ManualClock::at(NOW);
    let policies = Policies::of_default(10, Quota::per_second(1)).unwrap();
    let server = Running::with_clock(policies, &clock).await;
    let mut client = server.grpc().await;
    let allowed = pb::Decision {
        allowed: true,
        verdict: pb::Verdict::Allowed.into(),
        limit: 10,
        remaining: 6,
        reset_at_ms: NOW / 1_000 + 4_000,
        retry_after_ms: Some(0),
        policy: "default".to_owned(),
        limits: vec![pb::LimitStanding {
            name: "default".to_owned(),
            policy: "default".to_owned(),
            limit: 10,
            remaining: 6,
            reset_at_ms: NOW / 1_000 + 4_000,
            retry_after_ms: Some(0),
            granted: None,
        }],
        ..pb::Decision::default()
    };
    assert_eq!(client.acquire(of("k", 4, None)).await.unwrap().into_inner(), allowed);
    let denied = client.acquire(of("k", 8, Some("i"))).await.unwrap().into_inner();
    assert_eq!((denied.allowed, denied.retry_after_ms), (false, Some(2_000)));
    let never = client.acquire(of("k", 11, None)).await.unwrap().into_inner();
    assert_eq!((never.verdict(), never.retry_after_ms), (pb::Verdict::Never, None));
    clock.advance(Duration::from_millis(2_000));
    let first = client.acquire(of("k", 8, Some("i"))).await.unwrap().into_inner();
    assert!(first.allowed && !first.replayed);
    let replay = client.acquire(of("k", 8, Some("i"))).await.unwrap().into_inner();
    assert_eq!(replay, pb::Decision { replayed: true, ..first });
    let conflict = client.acquire(of("k", 7, Some("i"))).await.unwrap_err();
    assert_eq!(conflict.code(), Code::AlreadyExists);
    server.end().await;
}

/// A delay, a verdict in shadow mode, the binding limit, and a replay of several keys.
#[tokio::test]
async fn what_is_beside_the_numbers_reaches_callers() {
    let text = "policies:
  queue: {algorithm: leaky_bucket, rate: 1 per 1s, queue: 3}
  shadow: {limit: 1 per 1s, shadow: true}
";
    let policies = policies_from_yaml(text).unwrap();
    let server = Running::with_clock(policies, &ManualClock::at(NOW)).await;
    let mut client = server.grpc().await;
    let charge = |policy: &str| pb::Charge {
        policy: policy.to_owned(),
        key: "k".to_owned(),
        ..pb::Charge::default()
    };
    let both = pb::AcquireRequest {
        charges: vec![charge("queue"), charge("shadow")],
        request_id: Some("i".to_owned()),
        ..pb::AcquireRequest::default()
    };
    let first = client.acquire(both.clone()).await.unwrap().into_inner();
    assert_eq!(
        (first.allowed, first.delay_ms, first.shadow()),
        (true, 0, pb::Verdict::Unspecified)
    );
    let replay = client.acquire(both.clone()).await.unwrap().into_inner();
    assert_eq!(replay, pb::Decision { replayed: true, ..first });
    let next = pb::AcquireRequest { request_id: None, ..both };
    let second = client.acquire(next).await.unwrap().into_inner();
    assert_eq!((second.allowed, second.delay_ms), (true, 1_000));
    assert_eq!(second.shadow(), pb::Verdict::Denied);
    let names = second.limits.iter().map(|limit| limit.policy.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["queue", "shadow"]);
    server.end().await;
}

#[tokio::test]
async fn peek_forecast_refund_and_reset() {
    let server = Running::with(slow()).await;
    let mut client = server.grpc().await;
    let asked = pb::AcquireRequest { receipt: true, ..of("k", 6, None) };
    let charge = client.acquire(asked).await.unwrap().into_inner();
    assert_eq!(client.peek(of("k", 4, None)).await.unwrap().into_inner().remaining, 4);
    let forecast = pb::ForecastRequest { key: "k".to_owned(), ..pb::ForecastRequest::default() };
    let forecast = client.forecast(forecast).await.unwrap().into_inner();
    assert_eq!((forecast.spendable_now, forecast.full_at_ms), (4, charge.reset_at_ms));
    let units =
        pb::RefundRequest { key: "k".to_owned(), cost: Some(2), ..pb::RefundRequest::default() };
    let refund = client.refund(units.clone()).await.unwrap().into_inner();
    assert_eq!((refund.refunded, refund.remaining), (2, 6));
    let receipt = pb::RefundRequest { receipt: charge.receipt.clone(), ..Default::default() };
    let refund = client.refund(receipt.clone()).await.unwrap().into_inner();
    let [name, policy] = [(); 2].map(|()| "default".to_owned());
    let limits = vec![pb::RefundedLimit { name, policy, refunded: 4 }];
    assert_eq!((refund.refunded, refund.remaining, &refund.limits), (4, 10, &limits));
    let again = client.refund(receipt).await.unwrap().into_inner();
    assert_eq!(again, pb::RefundResponse { replayed: true, ..refund });
    let both = pb::RefundRequest { receipt: charge.receipt, ..units };
    let status = client.refund(both).await.unwrap_err();
    let violations = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!((status.code(), &*violations[0].field), (Code::InvalidArgument, "receipt"));
    let reset = pb::ResetRequest { key: "k".to_owned(), ..pb::ResetRequest::default() };
    client.reset(reset).await.unwrap();
    assert_eq!(client.peek(of("k", 1, None)).await.unwrap().into_inner().remaining, 10);
    server.end().await;
}

#[tokio::test]
async fn what_is_wrong_is_named_alone_and_in_a_batch() {
    let server = Running::with(slow()).await;
    let mut client = server.grpc().await;
    let cases = [
        (of("", 1, None), Code::InvalidArgument, "key"),
        (of("k", 0, None), Code::InvalidArgument, "cost"),
        (of("k", 1, Some("")), Code::InvalidArgument, "request_id"),
        (
            pb::AcquireRequest { policy: "x".to_owned(), ..of("k", 1, None) },
            Code::NotFound,
            "policy",
        ),
    ];
    let requests = cases.iter().map(|(request, ..)| request.clone()).collect();
    for (request, code, field) in cases.clone() {
        let status = client.acquire(request).await.unwrap_err();
        let violations = status.get_details_bad_request().unwrap().field_violations;
        assert_eq!((status.code(), violations[0].field.as_str()), (code, field));
    }
    let many = client.acquire_many(pb::AcquireManyRequest { requests }).await.unwrap().into_inner();
    for (index, (outcome, (.., field))) in many.decisions.into_iter().zip(cases).enumerate() {
        let Some(pb::outcome::Outcome::Error(error)) = outcome.outcome else { panic!("{field}") };
        assert_eq!(error.field, Some(format!("requests[{index}].{field}")));
    }
    let requests = vec![of("k", 1, None); 12];
    let many = client.acquire_many(pb::AcquireManyRequest { requests }).await.unwrap().into_inner();
    let allowed = |outcome: &pb::Outcome| match &outcome.outcome {
        Some(pb::outcome::Outcome::Decision(decision)) => decision.allowed,
        _ => false,
    };
    let allowed: Vec<bool> = many.decisions.iter().map(allowed).collect();
    assert_eq!(allowed, [[true; 10].as_slice(), &[false; 2]].concat());
    let requests = vec![of("k", 1, None); 1_001];
    let status = client.acquire_many(pb::AcquireManyRequest { requests }).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    server.end().await;
}

#[tokio::test]
async fn callers_of_the_earlier_service_are_served() {
    let clock = ManualClock::at(NOW);
    let policies = Policies::of_default(10, Quota::per_second(1)).unwrap();
    let server = Running::with_clock(policies, &clock).await;
    let mut client = CompatibleClient::new(server.channel().await);
    let of = |logical_key: &str, cost, request_id: &str| compatible::AcquireRequest {
        logical_key: logical_key.to_owned(),
        cost,
        request_id: request_id.to_owned(),
    };
    let first = client.acquire(of("user:1", 7, ID)).await.unwrap().into_inner();
    let zero = prost_types::Duration { seconds: 0, nanos: 0 };
    assert_eq!(first.verdict(), compatible::Verdict::Allowed);
    assert!(first.remaining.to_bits() == 3.0_f64.to_bits() && first.retry_after == Some(zero));
    assert_eq!(client.acquire(of("user:1", 7, ID)).await.unwrap().into_inner(), first);
    let other = ID.replace('6', "7");
    let denied = client.acquire(of("user:1", 4, &other)).await.unwrap().into_inner();
    assert_eq!(denied.verdict(), compatible::Verdict::Denied);
    assert_eq!(denied.retry_after, Some(prost_types::Duration { seconds: 1, nanos: 0 }));
    let long = "k".repeat(257);
    let wrong = [
        of("user:1", 6, ID),
        of("", 1, &other),
        of(&long, 1, &other),
        of("user:1", 0, &other),
        of("user:1", 11, &other),
        of("user:1", 1, ""),
        of("user:1", 1, "no-uuid"),
    ];
    for (index, request) in wrong.into_iter().enumerate() {
        let code = client.acquire(request).await.unwrap_err().code();
        let expected = if index == 0 { Code::AlreadyExists } else { Code::InvalidArgument };
        assert_eq!(code, expected, "{index}");
    }
    server.end().await;
}

#[tokio::test]
async fn health_and_reflection_answer() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    let server = Running::with(slow()).await;
    let service = "tollgate.v1.RateLimiter".to_owned();
    let mut health = HealthClient::new(server.channel().await);
    let check = health.check(HealthCheckRequest { service }).await.unwrap().into_inner();
    assert_eq!(check.status, 1);
    let long = HealthCheckRequest { service: "s".repeat(5_000) };
    assert_eq!(health.check(long.clone()).await.unwrap_err().code(), Code::OutOfRange);
    assert_eq!(health.watch(long).await.unwrap_err().code(), Code::OutOfRange);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut reflection = ServerReflectionClient::new(server.channel().await);
    let stream = tokio_stream::once(request.clone());
    let mut replies = reflection.server_reflection_info(stream).await.unwrap().into_inner();
    let reply = replies.message().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = reply else { panic!("no list") };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["tollgate.v1.RateLimiter", "ratelimit.v1.RateLimiter", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{names:?}");
    }
    // Reflection ends a stream that it cannot read, without a status.
    let long = ServerReflectionRequest { host: "h".repeat(5_000), ..request };
    let stream = tokio_stream::once(long);
    let mut replies = reflection.server_reflection_info(stream).await.unwrap().into_inner();
    assert_eq!(replies.message().await.unwrap(), None);
    server.end().await;
}
