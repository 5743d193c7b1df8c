//! Traces: a span per request and per call to a store, sent to a collector by OTLP.
//!
//! The `traceparent` of a caller sets the parent of a span and whether it is sampled. Spans wait in
//! a bounded queue for a thread of their own; when the collector is slow or unreachable they are
//! dropped, and no decision waits. Keys appear as hashes only.

use std::fmt;
use std::time::Duration;

use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider,
};
use tollgate::{Error, Result};
use tollgate_service::engine::{self, CheckRequest, CheckResponse};

use super::KeyRedaction;
use crate::config;

/// How long the collector may take to accept a batch, and the last batches at shutdown.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(3);
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// How many spans may wait for the collector, and how many are sent at once.
const QUEUE_SPANS: usize = 8_192;
const BATCH_SPANS: usize = 512;
/// The longest name of a span: the path of a request may be any text.
const NAME_MAX: usize = 64;

/// Sends spans to a collector.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
}

impl Traces {
    /// Sends spans to a collector, which need not run yet. Call this within a runtime.
    ///
    /// # Errors
    /// `config_invalid` naming `otlp_endpoint`.
    pub(crate) fn to_collector(config: &config::Traces) -> Result<Self> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(&config.endpoint)
            .with_timeout(EXPORT_TIMEOUT)
            .build()
            .map_err(|error| Error::config("otlp_endpoint", error.to_string()))?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_SPANS)
            .with_max_export_batch_size(BATCH_SPANS)
            .build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let (part, of) = config.sample;
        let sampler = Sampler::TraceIdRatioBased(ratio(part, of));
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_sampler(Sampler::ParentBased(Box::new(sampler)))
            .with_resource(Resource::builder().with_service_name("tollgate").build())
            .build();
        let tracer = provider.tracer("tollgate");
        Ok(Self { provider, tracer, propagator: TraceContextPropagator::new() })
    }

    /// Begins the span of a request over HTTP or gRPC; its parent is the `traceparent` of the
    /// caller.
    pub(crate) fn begin_request(
        &self,
        protocol: &'static str,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Context {
        let path: String = path.chars().take(NAME_MAX).collect();
        let (name, attribute) = if protocol == "grpc" {
            (path.trim_start_matches('/').to_owned(), KeyValue::new("rpc.system", "grpc"))
        } else {
            let method = method.as_str().to_owned();
            (format!("{method} {path}"), KeyValue::new("http.request.method", method))
        };
        self.begin(name, &Headers(headers), [attribute])
    }

    fn begin(
        &self,
        name: String,
        caller: &impl Extractor,
        attributes: impl IntoIterator<Item = KeyValue>,
    ) -> Context {
        let parent = self.propagator.extract_with_context(&Context::new(), caller);
        let span = SpanBuilder::from_name(name).with_kind(SpanKind::Server);
        let span = span.with_attributes(attributes).start_with_context(&self.tracer, &parent);
        parent.with_span(span)
    }

    /// Begins the span of RESP commands that arrived together.
    pub(crate) fn begin_commands(&self, commands: usize) -> Context {
        let count = i64::try_from(commands).unwrap_or(i64::MAX);
        let about = [KeyValue::new("tollgate.commands", count)];
        self.begin("RESP".to_owned(), &Headers(&HeaderMap::new()), about)
    }

    /// Begins the span of a call to the store, as a child of the current request, if that is
    /// sampled.
    pub(crate) fn begin_call(
        &self,
        operation: &'static str,
        store: &str,
        admissions: u64,
    ) -> Option<Context> {
        let parent = Context::current();
        if !parent.span().span_context().is_sampled() {
            return None;
        }
        let about = [
            KeyValue::new("db.system.name", store.to_owned()),
            KeyValue::new("tollgate.admissions", i64::try_from(admissions).unwrap_or(i64::MAX)),
        ];
        let span =
            SpanBuilder::from_name(operation).with_kind(SpanKind::Client).with_attributes(about);
        let span = span.start_with_context(&self.tracer, &parent);
        Some(parent.with_span(span))
    }

    /// Sends the queued spans, and ends. Takes up to [`SHUTDOWN_TIMEOUT`].
    pub(crate) async fn shutdown(&self) {
        let provider = self.provider.clone();
        let ended =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT))
                .await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

/// Adds a decision to the span of its request, if that is sampled.
pub(super) fn note(
    request: &CheckRequest<'_>,
    result: &engine::Result<CheckResponse>,
    redaction: &KeyRedaction,
) {
    let context = Context::current();
    let span = context.span();
    if !span.is_recording() {
        return;
    }
    let keys = request.charges().iter().map(|charge| redaction.in_traces(charge.key));
    let keys = keys.collect::<Vec<_>>().join(",");
    span.set_attribute(KeyValue::new("tollgate.key_hash", keys));
    let units = i64::try_from(super::units(request)).unwrap_or(i64::MAX);
    span.set_attribute(KeyValue::new("tollgate.cost", units));
    match result {
        Ok(CheckResponse { policy, decision, shadow, .. }) => {
            let verdict = shadow.unwrap_or(decision.verdict).as_str();
            span.set_attribute(KeyValue::new("tollgate.policy", policy.to_string()));
            span.set_attribute(KeyValue::new("tollgate.verdict", verdict));
            span.set_attribute(KeyValue::new("tollgate.shadow", shadow.is_some()));
            if let Some(mode) = decision.degraded {
                span.set_attribute(KeyValue::new("tollgate.degraded", mode.as_str()));
            }
        }
        Err(failure) => {
            let code = failure.error.code().as_str();
            span.set_attribute(KeyValue::new("error.type", code));
        }
    }
}

/// Adds to the span of a batch how many requests it had, and how many were allowed.
pub(super) fn note_batch(results: &[engine::Result<CheckResponse>]) {
    let context = Context::current();
    let span = context.span();
    if span.is_recording() {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let decided = results.iter().flatten();
        let allowed = decided.filter(|response| response.decision.is_allowed()).count();
        span.set_attribute(KeyValue::new("tollgate.batch", count(results.len())));
        span.set_attribute(KeyValue::new("tollgate.batch.allowed", count(allowed)));
    }
}

/// Ends the span of a request.
pub(super) fn end_request(context: &Context, status: StatusCode) {
    let code = KeyValue::new("http.response.status_code", i64::from(status.as_u16()));
    context.span().set_attribute(code);
    end(context, status.is_server_error().then_some("the request was not decided"));
}

/// Ends the span of a context, with an error if there was one.
pub(crate) fn end(context: &Context, error: Option<&'static str>) {
    let span = context.span();
    if let Some(error) = error {
        span.set_status(Status::error(error));
    }
    span.end();
}

/// The headers of a caller.
struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}

/// Samplers take a float; it decides nothing but which traces are sampled.
#[expect(clippy::cast_precision_loss, reason = "a share of traces need not be exact")]
fn ratio(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}
