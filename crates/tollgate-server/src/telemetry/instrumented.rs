//! A store whose calls are counted, timed and traced. For stores behind a network; in memory there
//! is no call to time.
//!
//! The limiter drops a call at its deadline, and a caller that leaves drops it earlier: the call is
//! recorded when it is dropped, by the facts that it leaves behind.

use std::future::Future;
use std::sync::Arc;

use opentelemetry::Context;
use tokio::time::Instant;
use tollgate::authoring::Key;
use tollgate::store::{
    BatchResults, CallContext, Capability, Endpoint, Evidence, LastAnswer, Loaded, PolicyUsage,
    Store,
};
use tollgate::{Admission, Charge, Code, Error, Result};

use super::metrics::{ANSWERED, CANCELLED};
use super::{Telemetry, end};

/// A store whose calls are recorded under a name.
pub(crate) struct Instrumented<S> {
    inner: S,
    name: &'static str,
    telemetry: Arc<Telemetry>,
}

impl<S: Store> Instrumented<S> {
    pub(crate) fn new(inner: S, name: &'static str, telemetry: Arc<Telemetry>) -> Self {
        telemetry.metrics.add_store(name);
        Self { inner, name, telemetry }
    }

    /// Begins a call; `missing` classifies it if it is dropped at its deadline.
    fn begin<'a, M: Fn() -> Option<Code>>(
        &'a self,
        (operation, admissions): (&'static str, u64),
        cx: CallContext<'a>,
        missing: M,
    ) -> Call<'a, M> {
        let traces = self.telemetry.traces.as_ref();
        let span = traces.and_then(|traces| traces.begin_call(operation, self.name, admissions));
        let (telemetry, store, start) = (&*self.telemetry, self.name, Instant::now());
        Call { telemetry, store, admissions, span, start, cx, missing, has_ended: false }
    }

    async fn record<T>(
        &self,
        about: (&'static str, u64),
        cx: CallContext<'_>,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let begun = self.begin(about, cx, || Some(cx.expired().code()));
        let answer = call.await;
        begun.end(answer.as_ref().err().map(Error::code));
        answer
    }
}

/// A call under way.
struct Call<'a, M: Fn() -> Option<Code>> {
    telemetry: &'a Telemetry,
    store: &'static str,
    admissions: u64,
    span: Option<Context>,
    start: Instant,
    cx: CallContext<'a>,
    missing: M,
    has_ended: bool,
}

impl<M: Fn() -> Option<Code>> Call<'_, M> {
    fn end(mut self, error: Option<Code>) {
        self.has_ended = true;
        self.record(error.map_or(ANSWERED, Code::as_str));
    }

    fn record(&self, result: &'static str) {
        if let Some(span) = &self.span {
            end(span, (![ANSWERED, CANCELLED].contains(&result)).then_some(result));
        }
        let took = self.start.elapsed();
        self.telemetry.metrics.call(self.store, result, self.admissions, took);
    }
}

/// The future of the call was dropped before, so all its facts are recorded.
impl<M: Fn() -> Option<Code>> Drop for Call<'_, M> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let is_cancelled = self.cx.time_left().is_none_or(|left| left > 0);
        let code = if is_cancelled { None } else { (self.missing)() };
        self.record(code.map_or(CANCELLED, Code::as_str));
    }
}

/// The code of a batch: the outage, if there was one.
fn worst(errors: &[Error]) -> Option<Code> {
    let outage = errors.iter().find(|error| error.is_outage());
    outage.or_else(|| errors.first()).map(Error::code)
}

impl<S: Store> Store for Instrumented<S> {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.record(("admit", 1), cx, self.inner.admit(admission, cx)).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let admissions = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let seen = || worst(&results.errors(&cx));
        let begun = self.begin(("admit", admissions), cx, seen);
        self.inner.admit_many(batch, results, cx).await;
        begun.end(seen());
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.record(("load", 0), cx, self.inner.load(charges, cx)).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.record(("reset", 0), cx, self.inner.reset(key, cx)).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    fn forgotten_request_ids(&self) -> u64 {
        self.inner.forgotten_request_ids()
    }

    fn round_trips(&self) -> Option<u64> {
        self.inner.round_trips()
    }

    fn usage(&self) -> Vec<PolicyUsage> {
        self.inner.usage()
    }

    fn endpoint(&self, key: Key<'_>) -> Endpoint {
        self.inner.endpoint(key)
    }

    fn last_answer(&self, key: Key<'_>) -> Option<LastAnswer> {
        self.inner.last_answer(key)
    }
}
