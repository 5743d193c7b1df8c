//! Limits in Durable Objects: exact, with one call per decision and no retries.
//!
//! A Worker has a [`DurableObjects`] store. It sends each admission to the object of its keys, and
//! the object ([`LimitsObject`], a class that [`limits_object!`](crate::limits_object) makes)
//! reads, decides and writes it in its own storage. Keys are spread over a fixed number of objects
//! by their subject: all limits of a subject are in one object and are charged at once. Charges on
//! subjects in different objects are made in order and undone exactly on a later denial.
//!
//! Code that runs in an object of its own and limits what happens there uses [`ObjectStore`].
//!
//! `wire` has the messages, `shard` the choice of the object, `storage` the two classes of storage.

mod calls;
mod object;
mod panics;
mod parts;
mod shard;
mod storage;
mod store;
mod swapping;
mod wire;

use std::fmt;
use std::sync::Arc;

use tollgate_core::store::{
    BatchResults, CallContext, Capability, Evidence, Loaded, MultiKey, Store, compensate,
    one_by_one,
};
use tollgate_core::{Admission, Charge, Error, Key, Result};
use worker::ObjectNamespace;

pub use object::LimitsObject;
pub use panics::abort_on_panic;
pub use store::ObjectStore;

use calls::Calls;
use parts::ObjectParts;

/// The number of objects unless another one is set.
const DEFAULT_SHARDS: u32 = 64;
/// More objects than any account needs.
const SHARDS_MAX: u32 = 1 << 20;

/// A store in Durable Objects, for Workers.
///
/// ```no_run
/// use tollgate_core::{Limit, Quota};
/// use tollgate_worker::{DurableObjects, limiter};
///
/// # async fn example(env: worker::Env) -> Result<(), Box<dyn std::error::Error>> {
/// let store = DurableObjects::new(env.durable_object("LIMITS")?);
/// let limiter = limiter(store).build();
/// let api = Limit::gcra("api", Quota::per_minute(100))?;
/// let decision = limiter.check(api.charge("ada")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DurableObjects(Arc<ObjectParts>);

impl DurableObjects {
    /// A store over the objects of a namespace, with 64 of them.
    #[must_use]
    pub fn new(namespace: ObjectNamespace) -> Self {
        Self::over(namespace, DEFAULT_SHARDS)
    }

    /// A store over a number of objects.
    ///
    /// An object decides some hundreds of admissions per second; the number of objects bounds what
    /// all of them decide. A change of the number moves keys to other objects, where they start
    /// afresh. With one object, admissions over any keys are atomic.
    ///
    /// # Errors
    /// `config_invalid` naming `shards` when there is none, or more than 1,048,576.
    pub fn with_shards(namespace: ObjectNamespace, shards: u32) -> Result<Self> {
        if shards == 0 || shards > SHARDS_MAX {
            let accepted = format!("is {shards}; accepted: 1 to {SHARDS_MAX}");
            return Err(Error::config("shards", accepted));
        }
        Ok(Self::over(namespace, shards))
    }

    fn over(namespace: ObjectNamespace, shards: u32) -> Self {
        Self(Arc::new(ObjectParts(Calls { namespace, shards })))
    }

    /// The object that decides alone, if all keys are in it and it knows all algorithms.
    fn single_object(&self, admission: &Admission<'_>) -> Option<(u32, wire::SentAdmission)> {
        let shard = self.0.only_shard(admission.charges())?;
        Some((shard, wire::SentAdmission::of(admission)?))
    }

    /// One call per object for admissions that each have all their keys in one object.
    async fn admit_by_object(
        &self,
        sent: Vec<(u32, wire::SentAdmission)>,
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let mut by_object: Vec<(u32, Vec<usize>, Vec<wire::SentAdmission>)> = Vec::new();
        for (index, (shard, admission)) in sent.into_iter().enumerate() {
            match by_object.iter_mut().find(|(known, ..)| *known == shard) {
                Some((_, places, admissions)) => {
                    places.push(index);
                    admissions.push(admission);
                }
                None => by_object.push((shard, vec![index], vec![admission])),
            }
        }
        let calls = by_object.into_iter().map(|(shard, places, admissions)| async move {
            places.iter().for_each(|index| results.context(*index, cx).sent());
            let outcomes = self.0.0.admit(shard, admissions, cx.time()).await;
            for (number, index) in places.into_iter().enumerate() {
                let outcome = match &outcomes {
                    Ok(outcomes) => outcomes.get(number).cloned(),
                    Err(error) => Some(Err(error.clone())),
                };
                results.set(index, outcome.unwrap_or_else(|| Err(store::no_outcome())));
            }
        });
        crate::join::join_all(calls.collect()).await;
    }
}

impl Store for DurableObjects {
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = true;
        capability.durable = true;
        capability.own_clock = true;
        capability.idempotent = true;
        capability.bounded_ids = true;
        capability.multi_key =
            if self.0.0.shards == 1 { MultiKey::Atomic } else { MultiKey::Compensated };
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        if let Some((shard, sent)) = self.single_object(admission) {
            cx.sent();
            let outcomes = self.0.0.admit(shard, vec![sent], cx.time()).await?;
            return outcomes.into_iter().next().unwrap_or_else(|| Err(store::no_outcome()));
        }
        if admission.charges().is_empty() {
            let message = "is empty; accepted: at least one charge";
            return Err(Error::invalid("charges", message).not_sent());
        }
        if !admission.charges().iter().all(wire::is_known) {
            return self.0.swapping().admit(admission, cx).await;
        }
        compensate::admit(&self.0, admission, cx).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let sent: Option<Vec<_>> = batch.iter().map(|one| self.single_object(one)).collect();
        match sent {
            Some(sent) => self.admit_by_object(sent, results, cx).await,
            // Those that share a key are applied in order.
            None => one_by_one(self, batch, results, cx).await,
        }
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.0.0.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        self.0.0.reset(key.to_text()).await
    }
}

impl fmt::Debug for DurableObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableObjects").field("shards", &self.0.0.shards).finish_non_exhaustive()
    }
}

/// Makes a class of Durable Objects that keep limits.
///
/// `sqlite` for a class of `new_sqlite_classes`, which is what Cloudflare recommends; `key_value`
/// for one of `new_classes`. The name is the `class_name` of the binding.
///
/// ```text
/// tollgate_worker::limits_object!(Limits, sqlite);
/// ```
///
/// The crate that uses it depends on `worker`.
#[macro_export]
macro_rules! limits_object {
    ($name:ident, $class:ident) => {
        /// A Durable Object that keeps limits.
        #[::worker::durable_object(alarm)]
        #[derive(Debug)]
        pub struct $name($crate::LimitsObject);

        impl ::worker::DurableObject for $name {
            fn new(state: ::worker::State, _: ::worker::Env) -> Self {
                Self($crate::LimitsObject::$class(&state))
            }

            async fn fetch(
                &self,
                request: ::worker::Request,
            ) -> ::worker::Result<::worker::Response> {
                self.0.fetch(request).await
            }

            async fn alarm(&self) -> ::worker::Result<::worker::Response> {
                self.0.alarm().await
            }
        }
    };
}
