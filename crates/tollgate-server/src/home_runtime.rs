//! A store whose connections, timers and tasks belong to one runtime, whichever thread calls it.
//!
//! Stores open connections and spawn tasks where they are called. Callers are on the threads of
//! connections (`workers`): a thread that is busy with one batch must not delay the answers that
//! other threads wait for, and a store outlives them.

use std::future::poll_fn;
use std::pin::pin;

use tokio::runtime::Handle;
use tollgate::authoring::Key;
use tollgate::store::{
    BatchResults, CallContext, Capability, Endpoint, Evidence, LastAnswer, Loaded, PolicyUsage,
    Store,
};
use tollgate::{Admission, Charge, Result};

/// A store, and the runtime that it was opened in.
pub(crate) struct HomeRuntime<S> {
    inner: S,
    runtime: Handle,
}

impl<S: Store> HomeRuntime<S> {
    pub(crate) const fn new(inner: S, runtime: Handle) -> Self {
        Self { inner, runtime }
    }

    /// Polls a call within the runtime of the store.
    async fn within<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        poll_fn(|context| {
            let _entered = self.runtime.enter();
            call.as_mut().poll(context)
        })
        .await
    }
}

impl<S: Store> Store for HomeRuntime<S> {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.within(self.inner.admit(admission, cx)).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        self.within(self.inner.admit_many(batch, results, cx)).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.within(self.inner.load(charges, cx)).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.within(self.inner.reset(key, cx)).await
    }

    async fn close(&self) {
        self.within(self.inner.close()).await;
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
