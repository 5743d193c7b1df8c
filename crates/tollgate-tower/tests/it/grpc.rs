//! Refusals over gRPC, read by the client of tonic.

use std::net::SocketAddr;
use std::time::Duration;

use tollgate::algorithm::Gcra;
use tollgate::authoring::Key;
use tollgate::store::{CallContext, Capability, Evidence, Loaded, Store};
use tollgate::{
    Admission, Charge, Code as Cause, Cost, Error, Limit, Limiter, OutageMode, Quota, Result,
};
use tollgate_tower::extract::{ClientIp, Extract, Path};
use tollgate_tower::{Decide, LimitRule, RateLimitLayer};
use tonic::transport::server::{Server, TcpConnectInfo, TcpIncoming};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

use crate::support::{connected, limiter, per_minute, runtime};

type Client = HealthClient<tonic::transport::Channel>;

async fn connect<D: Decide>(layer: RateLimitLayer<D>) -> Client {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let incoming = TcpIncoming::bind(any).unwrap();
    let address = incoming.local_addr().unwrap();
    let (_, service) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(service);
    tokio::spawn(server.serve_with_incoming(incoming));
    connected(address).await
}

async fn refused(client: &mut Client) -> Status {
    client.check(HealthCheckRequest::default()).await.unwrap_err()
}

#[test]
fn a_refusal_is_resource_exhausted_with_exact_retry_info() {
    runtime().block_on(async {
        let (limiter, clock) = limiter();
        let quota = Quota::new(2, Duration::from_millis(2_501));
        let limit = Limit::new("per-method", Gcra::new(quota).unwrap()).unwrap();
        let who = ClientIp::peer::<TcpConnectInfo>().and(Path);
        let mut client = connect(RateLimitLayer::new(limiter, limit, who).unwrap()).await;
        for _ in 0..2 {
            let reply = client.check(HealthCheckRequest::default()).await.unwrap();
            assert!(reply.metadata().get("ratelimit").is_some());
        }
        for _ in 0..5 {
            let status = refused(&mut client).await;
            assert_eq!(status.code(), Code::ResourceExhausted);
            let details = status.get_error_details();
            let wait = details.retry_info().unwrap().retry_delay.unwrap();
            let wait_ms = wait.as_millis();
            assert!(matches!(wait_ms, 1_250 | 1_251), "one unit takes 1250.5 ms: {wait_ms}");
            assert_eq!(status.message(), format!("try again in {wait_ms} ms"));
            let violations = &details.quota_failure().unwrap().violations;
            assert_eq!(violations.len(), 1);
            assert_eq!(violations[0].subject, "per-method");
            assert_eq!(
                status.metadata().get("grpc-retry-pushback-ms").unwrap(),
                &*wait_ms.to_string()
            );
            assert_eq!(status.metadata().get("retry-after").unwrap(), "2");
            clock.advance(wait - Duration::from_millis(1));
            assert_eq!(refused(&mut client).await.code(), Code::ResourceExhausted);
            clock.advance(Duration::from_millis(1));
            client.check(HealthCheckRequest::default()).await.unwrap();
        }
    });
}

#[test]
fn a_call_that_can_never_pass_forbids_retries() {
    runtime().block_on(async {
        let rule = LimitRule::new(per_minute("p", 3), ClientIp::peer::<TcpConnectInfo>())
            .cost(|_| Cost::new(4).unwrap());
        let layer = RateLimitLayer::builder(limiter().0).limit_rule(rule).build().unwrap();
        let status = refused(&mut connect(layer).await).await;
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.get_error_details().retry_info().is_none());
        assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "-1");
    });
}

#[test]
fn every_error_has_the_status_of_the_table() {
    runtime().block_on(async {
        for (cause, code) in [
            (Cause::StoreUnavailable, Code::Unavailable),
            (Cause::Timeout, Code::Unavailable),
            (Cause::ConflictExhausted, Code::ResourceExhausted),
            (Cause::QueueFull, Code::ResourceExhausted),
            (Cause::CorruptState, Code::DataLoss),
            (Cause::InvalidRequest, Code::InvalidArgument),
            (Cause::Unsupported, Code::Unimplemented),
        ] {
            let limit = per_minute("p", 1).on_outage(OutageMode::Closed);
            let who = ClientIp::peer::<TcpConnectInfo>();
            let layer = RateLimitLayer::new(Limiter::new(Broken(cause)), limit, who).unwrap();
            let status = refused(&mut connect(layer).await).await;
            assert_eq!(status.code(), code, "{cause}");
            let retries = status.get_error_details().retry_info().is_some();
            let waits = matches!(code, Code::Unavailable | Code::ResourceExhausted);
            assert_eq!(retries, waits, "{cause}");
        }
    });
}

/// A store that answers with one error only.
struct Broken(Cause);

impl Store for Broken {
    fn capability(&self) -> Capability {
        Capability::default()
    }

    async fn admit(&self, _: &Admission<'_>, _: CallContext<'_>) -> Result<Evidence> {
        Err(Error::new(self.0, "broken on purpose"))
    }

    async fn load(&self, _: &[Charge<'_>], _: CallContext<'_>) -> Result<Loaded> {
        Err(Error::new(self.0, "broken on purpose"))
    }

    async fn reset(&self, _: Key<'_>, _: CallContext<'_>) -> Result<()> {
        Err(Error::new(self.0, "broken on purpose"))
    }
}
