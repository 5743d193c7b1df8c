//! [`Store`] with boxed futures, for programs that choose a store at run time.
//!
//! One boxed future per call: fine beside a network round trip, too much for the library path,
//! which stays static.

use core::fmt;

use super::{
    BatchResults, CallContext, Capability, Endpoint, Evidence, LastAnswer, Loaded, PolicyUsage,
    Store,
};
use crate::charge::{Admission, Charge};
use crate::decision::Decision;
use crate::error::Result;
use crate::key::Key;
use crate::maybe_send::{BoxFuture, MaybeSend, MaybeSync};
use crate::time::Micros;

/// [`Store`] with boxed futures; implemented for every store.
pub trait StoreDyn: MaybeSend + MaybeSync {
    /// [`Store::capability`].
    fn capability_dyn(&self) -> Capability;
    /// [`Store::admit`].
    fn admit_dyn<'s>(
        &'s self,
        admission: &'s Admission<'s>,
        cx: CallContext<'s>,
    ) -> BoxFuture<'s, Result<Evidence>>;
    /// [`Store::admit_many`].
    fn admit_many_dyn<'s>(
        &'s self,
        batch: &'s [Admission<'s>],
        results: &'s BatchResults,
        cx: CallContext<'s>,
    ) -> BoxFuture<'s, ()>;
    /// [`Store::load`].
    fn load_dyn<'s>(
        &'s self,
        charges: &'s [Charge<'s>],
        cx: CallContext<'s>,
    ) -> BoxFuture<'s, Result<Loaded>>;
    /// [`Store::reset`].
    fn reset_dyn<'s>(&'s self, key: Key<'s>, cx: CallContext<'s>) -> BoxFuture<'s, Result<()>>;
    /// [`Store::close`].
    fn close_dyn(&self) -> BoxFuture<'_, ()>;
    /// [`Store::forgotten_request_ids`].
    fn forgotten_request_ids_dyn(&self) -> u64;

    /// [`Store::round_trips`].
    fn round_trips_dyn(&self) -> Option<u64>;
    /// [`Store::usage`].
    fn usage_dyn(&self) -> Vec<PolicyUsage>;
    /// [`Store::endpoint`].
    fn endpoint_dyn(&self, key: Key<'_>) -> Endpoint;
    /// [`Store::last_answer`].
    fn last_answer_dyn(&self, key: Key<'_>) -> Option<LastAnswer>;
    /// [`Store::decide_now`].
    fn decide_now_dyn(&self, charge: &Charge<'_>, at: Micros) -> Option<Result<Decision>>;
}

impl<S: Store> StoreDyn for S {
    fn capability_dyn(&self) -> Capability {
        self.capability()
    }

    fn admit_dyn<'s>(
        &'s self,
        admission: &'s Admission<'s>,
        cx: CallContext<'s>,
    ) -> BoxFuture<'s, Result<Evidence>> {
        Box::pin(self.admit(admission, cx))
    }

    fn admit_many_dyn<'s>(
        &'s self,
        batch: &'s [Admission<'s>],
        results: &'s BatchResults,
        cx: CallContext<'s>,
    ) -> BoxFuture<'s, ()> {
        Box::pin(self.admit_many(batch, results, cx))
    }

    fn load_dyn<'s>(
        &'s self,
        charges: &'s [Charge<'s>],
        cx: CallContext<'s>,
    ) -> BoxFuture<'s, Result<Loaded>> {
        Box::pin(self.load(charges, cx))
    }

    fn reset_dyn<'s>(&'s self, key: Key<'s>, cx: CallContext<'s>) -> BoxFuture<'s, Result<()>> {
        Box::pin(self.reset(key, cx))
    }

    fn close_dyn(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close())
    }

    fn forgotten_request_ids_dyn(&self) -> u64 {
        self.forgotten_request_ids()
    }

    fn round_trips_dyn(&self) -> Option<u64> {
        self.round_trips()
    }

    fn usage_dyn(&self) -> Vec<PolicyUsage> {
        self.usage()
    }

    fn endpoint_dyn(&self, key: Key<'_>) -> Endpoint {
        self.endpoint(key)
    }

    fn last_answer_dyn(&self, key: Key<'_>) -> Option<LastAnswer> {
        self.last_answer(key)
    }

    fn decide_now_dyn(&self, charge: &Charge<'_>, at: Micros) -> Option<Result<Decision>> {
        self.decide_now(charge, at)
    }
}

/// A store chosen at run time.
pub struct BoxStore(Box<dyn StoreDyn>);

impl BoxStore {
    /// Erases a store.
    pub fn new(store: impl Store + 'static) -> Self {
        Self(Box::new(store))
    }
}

impl fmt::Debug for BoxStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoxStore").field(&self.0.capability_dyn()).finish()
    }
}

// Each method awaits the boxed future: returning it would tie the caller's lifetimes together.
impl Store for BoxStore {
    fn capability(&self) -> Capability {
        self.0.capability_dyn()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.0.admit_dyn(admission, cx).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        self.0.admit_many_dyn(batch, results, cx).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.0.load_dyn(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.0.reset_dyn(key, cx).await
    }

    async fn close(&self) {
        self.0.close_dyn().await;
    }

    fn forgotten_request_ids(&self) -> u64 {
        self.0.forgotten_request_ids_dyn()
    }

    fn round_trips(&self) -> Option<u64> {
        self.0.round_trips_dyn()
    }

    fn usage(&self) -> Vec<PolicyUsage> {
        self.0.usage_dyn()
    }

    fn endpoint(&self, key: Key<'_>) -> Endpoint {
        self.0.endpoint_dyn(key)
    }

    fn last_answer(&self, key: Key<'_>) -> Option<LastAnswer> {
        self.0.last_answer_dyn(key)
    }

    fn decide_now(&self, charge: &Charge<'_>, at: Micros) -> Option<Result<Decision>> {
        self.0.decide_now_dyn(charge, at)
    }
}
