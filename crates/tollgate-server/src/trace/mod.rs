//! Traces: a span per request and per call to a store, sent to a collector by OTLP.
//!
//! A caller that traces is honoured: its `traceparent` decides whose child a span is and whether it is
//! kept. Spans wait in a bounded queue for a thread of their own; when the collector does not keep up
//! or is away they are dropped, and no decision waits. Keys appear as hashes only.

mod web;

use std::fmt;
use std::time::Duration;

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

use crate::config;
use crate::engine::{Answer, Ask, Failure, KeyNames};

pub(crate) use web::traced;

/// How long the collector may take to accept a batch, and to accept the last ones at the end.
const EXPORT_WITHIN: Duration = Duration::from_secs(3);
const LAST_WITHIN: Duration = Duration::from_secs(5);
/// How many spans may wait for the collector, and how many travel together.
const QUEUE_SPANS: usize = 8_192;
const BATCH_SPANS: usize = 512;

/// Where spans go.
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
}

impl Traces {
    /// Sends spans to a collector. It need not be there yet. Call this within a runtime.
    ///
    /// # Errors
    /// `config_invalid` naming `otlp_endpoint`.
    pub fn to_collector(config: &config::Traces) -> Result<Self> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(&config.endpoint)
            .with_timeout(EXPORT_WITHIN)
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

    /// Begins the span of a request; the caller is its parent if it says so in its headers.
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

    /// Begins the span of commands that came together on a connection without headers.
    pub(crate) fn begin_commands(&self, commands: usize) -> Context {
        let count = i64::try_from(commands).unwrap_or(i64::MAX);
        let about = [KeyValue::new("tollgate.commands", count)];
        self.begin("RESP".to_owned(), &Nobody, about)
    }

    /// Begins the span of a call to the store, as a child of the request that runs, if one does.
    pub(crate) fn begin_call(
        &self,
        act: &'static str,
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
        let span = SpanBuilder::from_name(act).with_kind(SpanKind::Client).with_attributes(about);
        let span = span.start_with_context(&self.tracer, &parent);
        Some(parent.with_span(span))
    }

    /// Sends what waits, and no more after that. Takes as long as a collector may take.
    pub(crate) async fn finish(&self) {
        let provider = self.provider.clone();
        let ended =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST_WITHIN)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last traces did not reach their collector");
        }
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

/// Writes a decision down in the span of its request, if that is kept.
pub(crate) fn note(
    ask: &Ask<'_>,
    answer: &core::result::Result<Answer, Failure>,
    names: &KeyNames,
) {
    let context = Context::current();
    let span = context.span();
    if !span.is_recording() {
        return;
    }
    span.set_attribute(KeyValue::new("tollgate.key_hash", names.hash_of(ask.key)));
    span.set_attribute(KeyValue::new(
        "tollgate.cost",
        i64::try_from(ask.cost.get()).unwrap_or(i64::MAX),
    ));
    match answer {
        Ok(Answer { policy, decision, shadow }) => {
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

/// Writes down how many decisions a batch got, and how many of them allow.
pub(crate) fn note_batch(answers: &[core::result::Result<Answer, Failure>]) {
    let context = Context::current();
    let span = context.span();
    if span.is_recording() {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let allowed =
            |answer: &&_| matches!(answer, Ok(Answer { decision, .. }) if decision.is_allowed());
        let allowed = answers.iter().filter(allowed).count();
        span.set_attribute(KeyValue::new("tollgate.batch", count(answers.len())));
        span.set_attribute(KeyValue::new("tollgate.batch.allowed", count(allowed)));
    }
}

/// Ends the span of a context; `wrong` says what is, if anything.
pub(crate) fn end(context: &Context, wrong: Option<&'static str>) {
    let span = context.span();
    if let Some(wrong) = wrong {
        span.set_status(Status::error(wrong));
    }
    span.end();
}

/// Nobody says whose child this is.
struct Nobody;

impl Extractor for Nobody {
    fn get(&self, _: &str) -> Option<&str> {
        None
    }

    fn keys(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// Samplers want a float; nothing is decided with it but which traces are kept.
#[expect(clippy::cast_precision_loss, reason = "a share of traces need not be exact")]
fn ratio(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}
