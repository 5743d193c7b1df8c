//! A store whose calls are counted, timed and traced. For stores behind a network; in memory there
//! is no call to time.

use std::future::Future;
use std::sync::Arc;

use tokio::time::Instant;
use tollgate::authoring::Key;
use tollgate::store::{
    BatchResults, CallContext, Capability, Endpoint, Evidence, LastAnswer, Loaded, PolicyUsage,
    Store,
};
use tollgate::{Admission, Charge, Result};

use super::{Telemetry, end};

/// A store whose calls are recorded under a name.
pub(crate) struct Instrumented<S> {
    pub(crate) inner: S,
    pub(crate) name: &'static str,
    pub(crate) telemetry: Arc<Telemetry>,
}

impl<S: Store> Instrumented<S> {
    async fn record<T>(
        &self,
        (operation, admissions): (&'static str, u64),
        call: impl Future<Output = T>,
        is_outage: impl Fn(&T) -> bool,
    ) -> T {
        let traces = self.telemetry.traces.as_ref();
        let span = traces.and_then(|traces| traces.begin_call(operation, self.name, admissions));
        let start = Instant::now();
        let answer = call.await;
        let result = if is_outage(&answer) { "outage" } else { "answered" };
        if let Some(span) = span {
            end(&span, (result == "outage").then_some("the store did not answer"));
        }
        self.telemetry.metrics.call(self.name, result, admissions, start.elapsed());
        answer
    }
}

fn is_outage<T>(answer: &Result<T>) -> bool {
    answer.as_ref().is_err_and(tollgate::Error::is_outage)
}

impl<S: Store> Store for Instrumented<S> {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.record(("admit", 1), self.inner.admit(admission, cx), is_outage).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let admissions = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let outage = |(): &()| results.has_outage();
        self.record(("admit", admissions), self.inner.admit_many(batch, results, cx), outage).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.record(("load", 0), self.inner.load(charges, cx), is_outage).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.record(("reset", 0), self.inner.reset(key, cx), is_outage).await
    }

    async fn close(&self) {
        self.inner.close().await;
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
