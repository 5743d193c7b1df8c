//! The store: admissions become script calls, replies become evidence.
//!
//! - One charge without a request id is sent at once, or waits in a queue and shares a call with
//!   others ([`charge`], [`batch_encode`], [`batch_decode`]).
//! - Several charges, or a request id, are one script of their own ([`admit`]); over several slots
//!   of a cluster, several of them with an exact undo ([`cross_slot`]), detached from the caller.
//! - What no script decides is decided in Rust and swapped in if nothing changed meanwhile: states
//!   of another quota, ranges, settlements, values that cannot be read, and algorithms without a
//!   script ([`swap`]).
//!
//! All calls go through the [`script_runner`], which repeats those that the server did not run.

mod admit;
mod batch;
mod batch_decode;
mod batch_encode;
mod charge;
mod cross_slot;
#[cfg(feature = "client")]
mod handle;
#[cfg(not(feature = "client"))]
mod handle_without_client;
mod load;
#[cfg(feature = "client")]
mod open;
mod recorded_swap;
mod reply;
mod script_runner;
mod swap;
#[cfg(test)]
mod tests;

use core::fmt;
use std::sync::Arc;

use tollgate_core::algorithm::ScriptedStep;
use tollgate_core::combine::Combiner;
use tollgate_core::store::cas::Cas;
use tollgate_core::store::{
    BatchResults, CallContext, Capability, Endpoint, Evidence, LastAnswer, Loaded, MultiKey,
    Retries, Store, TimeSource,
};
use tollgate_core::store::{compensate, record};
use tollgate_core::{Admission, Charge, Clock, Code, Error, Key, Operation, Result};

use crate::layout::KeyLayout;
use crate::transport::{Args, Call, Sharing, Transport};

#[cfg(feature = "client")]
pub use handle::Redis;
#[cfg(not(feature = "client"))]
pub use handle_without_client::Redis;

use batch_encode::{Item, ItemResult};
use script_runner::ScriptRunner;
use swap::Swapping;

struct Inner<T> {
    runner: Arc<ScriptRunner<T>>,
    combiner: Arc<Combiner<Item, ItemResult>>,
    swapping: Cas<Swapping<T>>,
}

impl<T: Transport> Redis<T> {
    /// A store over a transport, with the default layout of keys and the default retries.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn over(transport: T) -> Self {
        let clock = tollgate_core::SystemClock::new();
        Self::with_options(transport, KeyLayout::default(), Retries::default(), clock)
    }

    /// A store over a transport. The clock measures the waits between repeated attempts; it never
    /// decides.
    pub fn with_options(
        transport: T,
        layout: KeyLayout,
        retries: Retries,
        clock: impl Clock + Clone + 'static,
    ) -> Self {
        let options = (layout, retries);
        let runner = Arc::new(ScriptRunner::new(transport, options, Box::new(clock.clone())));
        let swapping = Cas::with_clock(Swapping(runner.clone()), clock).retries(retries);
        let combiner = charge::combiner(runner.has_slots());
        Self(Arc::new(Inner { runner, combiner, swapping }))
    }

    /// The transport.
    #[must_use]
    pub fn transport(&self) -> &T {
        &self.0.runner.transport
    }

    /// Decides an admission that is not one charge which a script takes.
    async fn admit_otherwise(
        &self,
        admission: &Admission<'_>,
        cx: CallContext<'_>,
    ) -> Result<Evidence> {
        if admission.charges().is_empty() {
            let message = "is empty; accepted: at least one charge";
            return Err(Error::invalid("charges", message).not_sent());
        }
        match self.0.route_of(admission) {
            Route::Script => self.0.admit(admission, cx).await,
            Route::CrossSlot => self.admit_over_slots(admission, cx).await,
            Route::Queue(..) | Route::Swap => self.0.swapping.admit(admission, cx).await,
            Route::Refused(error) => Err(error),
        }
    }
}

/// How an admission is decided.
enum Route<'a> {
    /// One charge that takes its cost, and its step.
    Queue(&'a Charge<'a>, ScriptedStep),
    Script,
    CrossSlot,
    Swap,
    Refused(Error),
}

impl<T: Transport> Inner<T> {
    fn route_of<'a>(&self, admission: &'a Admission<'a>) -> Route<'a> {
        let charges = admission.charges();
        if let ([charge], None) = (charges, admission.request_id)
            && charge.operation == Operation::Take
            && let Some(step) = charge.rule().scripted_step()
        {
            return Route::Queue(charge, step);
        }
        // A record is a key that expires: nothing counts them.
        if let Err(error) = record::check_bound(admission, false) {
            return Route::Refused(error);
        }
        let has_script = charges.iter().all(|charge| charge.rule().scripted_step().is_some());
        if compensate::spans_parts(self, charges) {
            return if has_script { Route::CrossSlot } else { Route::Refused(unsupported()) };
        }
        let is_plain = charges.iter().all(|charge| charge.operation == Operation::Take);
        let is_script = has_script && is_plain && admit::one_quota_per_key(charges);
        if is_script { Route::Script } else { Route::Swap }
    }

    fn item(&self, charge: &Charge<'_>, step: ScriptedStep, at: TimeSource) -> Item {
        Item::new(charge, (self.runner.layout.name(&charge.key()), step), at)
    }
}

fn unsupported() -> Error {
    let message = "algorithms without a script cannot be charged over several hash slots";
    Error::new(Code::Unsupported, message).not_sent()
}

impl<T: Transport> Store for Redis<T> {
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = true;
        capability.durable = true;
        capability.own_clock = true;
        capability.scripted = true;
        capability.idempotent = true;
        capability.multi_key = match self.transport().sharing() {
            Sharing::AnyKeys => MultiKey::Atomic,
            Sharing::SameSlot => MultiKey::Compensated,
        };
        capability
    }

    /// All ways but the queue are boxed: they are long, and a caller that waits for an answer would
    /// hold all of them.
    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        let Route::Queue(charge, step) = self.0.route_of(admission) else {
            return Box::pin(self.admit_otherwise(admission, cx)).await;
        };
        match self.0.charge(charge, step, cx).await {
            ItemResult::Decided(evidence) => Ok(evidence),
            ItemResult::Failed(error) => Err(error),
            ItemResult::NotScripted => Box::pin(self.0.swapping.admit(admission, cx)).await,
        }
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        self.admit_batch(batch, results, cx).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.0.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        let runner = &self.0.runner;
        let names = vec![runner.layout.name(&key)];
        let call = Call::new(runner.scripts.forget.clone(), names, Args::default());
        runner.send(&call, cx).await?.ok().map(drop)
    }

    async fn close(&self) {
        self.transport().close().await;
    }

    fn round_trips(&self) -> Option<u64> {
        Some(self.0.runner.trips())
    }

    fn endpoint(&self, key: Key<'_>) -> Endpoint {
        let runner = &self.0.runner;
        if !runner.has_slots() {
            return Endpoint::FIRST;
        }
        runner.transport.endpoint(runner.slot(&runner.layout.name(&key)))
    }

    fn last_answer(&self, key: Key<'_>) -> Option<LastAnswer> {
        let runner = &self.0.runner;
        runner.transport.last_answer(runner.slot(&runner.layout.name(&key)))
    }
}

impl<T: Transport> Clone for Redis<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Transport> fmt::Debug for Redis<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("sharing", &self.transport().sharing())
            .field("layout", &self.0.runner.layout)
            .finish_non_exhaustive()
    }
}
