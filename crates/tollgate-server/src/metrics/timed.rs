//! A store that is watched: every call is counted and timed. Only for stores behind a network; in
//! memory there is no call to time.

use std::future::Future;
use std::sync::Arc;

use tokio::time::Instant;
use tollgate::store::{BatchResults, BoxStore, CallContext, Capability, Evidence, Loaded, Store};
use tollgate::{Admission, Charge, Key, Result};

use super::Metrics;
use crate::trace::{self, Traces};

/// A store whose calls are counted and timed under a name.
pub(crate) struct Timed {
    pub(crate) inner: BoxStore,
    pub(crate) name: String,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Option<Arc<Traces>>,
}

impl Timed {
    async fn time<T>(
        &self,
        (act, admissions): (&'static str, u64),
        call: impl Future<Output = T>,
        is_outage: impl Fn(&T) -> bool,
    ) -> T {
        let span = self.traces.as_ref();
        let span = span.and_then(|traces| traces.begin_call(act, &self.name, admissions));
        let start = Instant::now();
        let answer = call.await;
        let result = if is_outage(&answer) { "outage" } else { "answered" };
        if let Some(span) = span {
            trace::end(&span, (result == "outage").then_some("the store did not answer"));
        }
        self.metrics.call(&self.name, result, admissions, start.elapsed());
        answer
    }
}

fn is_outage<T>(answer: &Result<T>) -> bool {
    answer.as_ref().is_err_and(tollgate::Error::is_outage)
}

impl Store for Timed {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.time(("admit", 1), self.inner.admit(admission, cx), is_outage).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let admissions = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let outage = |(): &()| results.has_outage();
        self.time(("admit", admissions), self.inner.admit_many(batch, results, cx), outage).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.time(("load", 0), self.inner.load(charges, cx), is_outage).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.time(("reset", 0), self.inner.reset(key, cx), is_outage).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    fn round_trips(&self) -> Option<u64> {
        self.inner.round_trips()
    }
}
