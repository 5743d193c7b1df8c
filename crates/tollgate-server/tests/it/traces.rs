//! Traces, as a collector receives them: an OTLP receiver decodes the requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tollgate_proto::tollgate_v1::AcquireRequest;
use tollgate_server::config::Setting;
use tollgate_server::{Config, Server};
use tollgate_test_servers::Redis;
use tonic::{Request, Response, Status};

use crate::support::{Resp, Running};

/// The ids of the trace and of the span of a caller.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Everything that arrived.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let service = resource.resource.unwrap_or_default().attributes.into_iter();
            let named = service.filter(|pair| pair.key == "service.name").count();
            assert_eq!(named, 1);
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Listens; the collector and its address.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let service = TraceServiceServer::new(collector.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, address)
    }

    fn spans(&self) -> Vec<Span> {
        self.0.lock().unwrap().clone()
    }
}

fn text(span: &Span, name: &str) -> Option<String> {
    let value = span.attributes.iter().find(|pair| pair.key == name)?.value.clone()?.value?;
    Some(match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(truth) => truth.to_string(),
        other => format!("{other:?}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A server that traces to an address.
async fn tracing(endpoint: &str, sample: &str, store: &str) -> Running {
    tracing_within("60s", endpoint, sample, store).await
}

async fn tracing_within(deadline: &str, endpoint: &str, sample: &str, store: &str) -> Running {
    let any = "127.0.0.1:0".to_owned();
    let flags = [
        (Setting::Http, any.clone()),
        (Setting::Grpc, any.clone()),
        (Setting::Resp, any),
        (Setting::Store, store.to_owned()),
        (Setting::Deadline, deadline.to_owned()),
        (Setting::OtlpEndpoint, endpoint.to_owned()),
        (Setting::TraceSample, sample.to_owned()),
        (Setting::LogKeys, "plain".to_owned()),
    ];
    let config = Config::of_text(&flags, |_| None, None).unwrap();
    Running::of(Server::bind(config).await.unwrap())
}

async fn acquire_as(server: &Running, traceparent: &str) {
    let request = reqwest::Client::new().post(server.url("/v1/acquire"));
    let request = request.header("traceparent", traceparent).body(r#"{"key":"ada@example.com"}"#);
    assert_eq!(request.send().await.unwrap().status().as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_every_protocol_are_traced_with_hashed_keys() {
    let (collector, endpoint) = Collector::start().await;
    let redis = Redis::start().unwrap();
    let server = tracing(&endpoint, "1", &redis.url()).await;
    acquire_as(&server, &format!("00-{TRACE}-{PARENT}-01")).await;
    let key = "ada@example.com".to_owned();
    let mut request = Request::new(AcquireRequest { key, ..AcquireRequest::default() });
    let parent = format!("00-{TRACE}-{PARENT}-01").parse().unwrap();
    request.metadata_mut().insert("traceparent", parent);
    server.grpc().await.acquire(request).await.unwrap();
    let mut resp = server.resp().await;
    let one = Resp::command(&["TG.ACQUIRE", "default", "ada@example.com"]);
    resp.send([one.as_str(), &one, &Resp::command(&["QUIT"])].concat().as_bytes()).await;
    resp.rest().await;
    // Queued spans are sent before the end.
    server.end().await;

    let spans = collector.spans();
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    for name in ["POST /v1/acquire", "tollgate.v1.RateLimiter/Acquire"] {
        let [span] = named(name)[..] else { unreachable!("{name}: {spans:?}") };
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), PARENT.into()));
        assert_eq!(text(span, "tollgate.verdict").as_deref(), Some("allowed"));
        assert_eq!(text(span, "tollgate.policy").as_deref(), Some("default"));
        assert_eq!(text(span, "tollgate.key_hash").map(|hash| hash.len()), Some(16));
        assert_eq!(text(span, "http.response.status_code").as_deref(), Some("200"));
        let under = |call: &&&Span| call.parent_span_id == span.span_id;
        let calls = named("admit");
        let call = calls.iter().find(under).expect("a call to the store");
        assert_eq!(text(call, "db.system.name").as_deref(), Some("redis"));
        assert_eq!(call.trace_id, span.trace_id);
    }
    let commands = named("RESP").iter().filter_map(|span| text(span, "tollgate.commands")).count();
    assert!(commands > 0, "{spans:?}");
    assert!(!format!("{spans:?}").contains("ada@example.com"), "{spans:?}");
}

/// The limiter drops the call at its deadline.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_a_frozen_store_does_not_answer_is_traced_as_an_error() {
    let (collector, endpoint) = Collector::start().await;
    let redis = Redis::start().unwrap();
    redis.stop_answering().unwrap();
    let store = format!("{}?reply_timeout_ms=30000&connect_timeout_ms=30000", redis.url());
    let server = tracing_within("200ms", &endpoint, "1", &store).await;
    acquire_as(&server, &format!("00-{TRACE}-{PARENT}-01")).await;
    server.end().await;
    let spans = collector.spans();
    let call = spans.iter().find(|span| span.name == "admit").expect("a call to the store");
    assert_eq!(call.status.as_ref().map(|status| &*status.message), Some("timeout"), "{call:?}");
    redis.go_on().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_caller_decides_what_is_sampled_and_otherwise_the_share_does() {
    let (collector, endpoint) = Collector::start().await;
    let server = tracing(&endpoint, "0", "memory:").await;
    acquire_as(&server, &format!("00-{TRACE}-{PARENT}-00")).await;
    acquire_as(&server, "nonsense").await;
    server.post("/v1/acquire", r#"{"key":"k"}"#).await;
    acquire_as(&server, &format!("00-{TRACE}-{PARENT}-01")).await;
    server.end().await;
    let spans = collector.spans();
    assert_eq!(spans.len(), 1, "{spans:?}");
    assert_eq!(hex(&spans[0].trace_id), TRACE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_down_or_silent_delays_no_decision() {
    // One that refuses connections, and one that accepts them and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    for endpoint in ["http://127.0.0.1:1", &silent] {
        let server = tracing(endpoint, "1", "memory:").await;
        let client = reqwest::Client::new();
        // No collector takes the spans, and no request waits for one.
        let body = format!(r#"{{"requests":[{}]}}"#, [r#"{"key":"k"}"#; 100].join(","));
        let requests = async {
            for _ in 0..200 {
                let request = client.post(server.url("/v1/acquire_many")).body(body.clone());
                assert_eq!(request.send().await.unwrap().status().as_u16(), 200);
            }
        };
        tokio::time::timeout(Duration::from_secs(60), requests).await.expect("responses");
        tokio::time::timeout(Duration::from_secs(60), server.end()).await.expect("an end");
    }
}

#[test]
fn invalid_endpoints_and_shares_are_refused() {
    let with = |name, value: &str| Config::of_text(&[(name, value.to_owned())], |_| None, None);
    for endpoint in ["collector:4317", "http://", "http://user:pass-word@host", "ftp://host"] {
        let wrong = with(Setting::OtlpEndpoint, endpoint).unwrap_err().to_string();
        assert!(
            wrong.contains("--otlp-endpoint") && wrong.contains("write http://host:4317"),
            "{wrong}"
        );
        assert!(!wrong.contains("pass-word"), "{wrong}");
    }
    for share in ["half", "2", "1/0", "3/2", "-1"] {
        assert!(with(Setting::TraceSample, share).is_err(), "{share}");
    }
    let config = Config::of_text(
        &[],
        |name| (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://host:4317".to_owned()),
        None,
    );
    assert_eq!(config.unwrap().traces.unwrap().sample, (1, 1));
}
