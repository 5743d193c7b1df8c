//! The spans of requests over HTTP and gRPC.

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::context::FutureExt;
use opentelemetry::propagation::Extractor;
use opentelemetry::trace::TraceContextExt;
use opentelemetry::{Context, KeyValue};

use super::{Traces, end};

/// The longest name of a span: a path that no method has may be any text.
const NAME_MAX: usize = 64;

/// Answers a request within a span of its own, if spans are wanted.
pub(crate) async fn traced(
    traces: Option<&Traces>,
    protocol: &'static str,
    request: Request,
    next: Next,
) -> Response {
    let Some(traces) = traces else { return next.run(request).await };
    let context = begin(traces, protocol, &request);
    let response = next.run(request).with_context(context.clone()).await;
    let status = response.status();
    let code = KeyValue::new("http.response.status_code", i64::from(status.as_u16()));
    context.span().set_attribute(code);
    end(&context, status.is_server_error().then_some("the request was not decided"));
    response
}

fn begin(traces: &Traces, protocol: &'static str, request: &Request) -> Context {
    let path: String = request.uri().path().chars().take(NAME_MAX).collect();
    let (name, about) = if protocol == "grpc" {
        (path.trim_start_matches('/').to_owned(), KeyValue::new("rpc.system", "grpc"))
    } else {
        let method = request.method().as_str().to_owned();
        (format!("{method} {path}"), KeyValue::new("http.request.method", method))
    };
    traces.begin(name, &Headers(request.headers()), [about])
}

/// What a caller says in its headers.
struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}
