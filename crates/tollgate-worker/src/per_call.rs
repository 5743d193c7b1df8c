//! A store that is opened anew for each call.

use std::fmt;

use tollgate_core::store::{BatchResults, CallContext, Capability, Evidence, Loaded, Store};
use tollgate_core::{Admission, Charge, Key, MaybeSend, MaybeSync, Result};

/// Opens a store for each call, so that a limiter can be kept for all requests of a Worker although
/// the futures of its store must not be shared between them.
pub struct PerCall<F> {
    open: F,
    capability: Capability,
}

impl<S: Store, F: Fn() -> Result<S>> PerCall<F> {
    /// A store that `open` opens. It is called for each call, and must be cheap.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn new(open: F) -> Result<Self> {
        Ok(Self { capability: open()?.capability(), open })
    }
}

impl<S: Store, F: Fn() -> Result<S> + MaybeSend + MaybeSync> Store for PerCall<F> {
    fn capability(&self) -> Capability {
        self.capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        (self.open)()?.admit(admission, cx).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        match (self.open)() {
            Ok(store) => store.admit_many(batch, results, cx).await,
            Err(error) => {
                (0..batch.len()).for_each(|index| results.set(index, Err(error.clone())));
            }
        }
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        (self.open)()?.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        (self.open)()?.reset(key, cx).await
    }
}

impl<F> fmt::Debug for PerCall<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCall").field("capability", &self.capability).finish_non_exhaustive()
    }
}
