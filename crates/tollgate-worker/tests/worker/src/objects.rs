//! The classes of Durable Objects under test, by their storage.
//!
//! Readings of the suite lie in the past: nothing is reclaimed.

use std::sync::Arc;

use tollgate_testkit::conformance::Options;
use tollgate_worker::{LimitsObject, ObjectStore};
use worker::js_sys::{Function, Math, Reflect, global};
use worker::wasm_bindgen::{JsCast as _, JsValue};
use worker::{DurableObject, Env, Request, Response, Result, State, durable_object};

use crate::clauses;

/// How many request ids an object remembers that runs one clause. Objects that several clauses call
/// at once remember as many as by default: the clause that fills one would fail the others.
pub(crate) const RECORDS_MAX: usize = 60;

/// What the suite cannot find out about objects.
pub(crate) fn options(records_max: Option<usize>) -> Options {
    Options { injects_time: Some(true), records_max }
}

macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident $class:ident;)*) => {
        $(
            $(#[$doc])*
            #[durable_object(fetch)]
            #[derive(Debug)]
            pub struct $name(LimitsObject);

            impl DurableObject for $name {
                fn new(state: State, _: Env) -> Self {
                    Self(ObjectStore::$class(&state).reclaim_every(None).into())
                }

                async fn fetch(&self, request: Request) -> Result<Response> {
                    self.0.fetch(request).await
                }
            }
        )*
    };
}

objects! {
    /// Limits in SQLite.
    SqliteLimits sqlite;
    /// Limits in key-value storage.
    KeyValueLimits key_value;
}

/// What an object that runs clauses inside of itself is made of.
#[derive(Debug)]
struct Inside {
    store: Arc<ObjectStore>,
    state: State,
    /// Another one for each instance of the object.
    instance: f64,
}

impl Inside {
    fn new(state: State, store: ObjectStore) -> Self {
        let store = Arc::new(store.reclaim_every(None).max_request_ids(RECORDS_MAX));
        Self { store, state, instance: Math::random() }
    }

    /// Runs a clause inside of the object: `/CLAUSE/PREFIX`.
    async fn fetch(&self, request: Request) -> Result<Response> {
        let path = request.path();
        match path.trim_matches('/').split_once('/').unwrap_or_default() {
            ("instance", _) => Response::ok(self.instance.to_string()),
            ("panic", _) => panic!("as it was asked to"),
            ("abort", _) => abort(&self.state).await,
            clause => {
                clauses::run(Arc::clone(&self.store), options(Some(RECORDS_MAX)), clause).await
            }
        }
    }
}

/// Ends the object as an eviction does: the next request gets another instance. By a timer, because
/// an eviction does not end an object in the middle of its program.
async fn abort(state: &State) -> Result<Response> {
    let context: &JsValue = state.as_raw().as_ref();
    let method = |of: &JsValue, name: &str| -> Result<Function> {
        Ok(Reflect::get(of, &JsValue::from_str(name))?.unchecked_into())
    };
    let abort = method(context, "abort")?.bind(context);
    method(&global(), "setTimeout")?.call1(&JsValue::NULL, &abort)?;
    core::future::pending().await
}

macro_rules! inside {
    ($($(#[$doc:meta])* $name:ident $class:ident;)*) => {
        $(
            $(#[$doc])*
            #[durable_object(fetch)]
            #[derive(Debug)]
            pub struct $name(Inside);

            impl DurableObject for $name {
                fn new(state: State, _: Env) -> Self {
                    let store = ObjectStore::$class(&state);
                    Self(Inside::new(state, store))
                }

                async fn fetch(&self, request: Request) -> Result<Response> {
                    self.0.fetch(request).await
                }
            }
        )*
    };
}

inside! {
    /// The store of code that runs in an object, over SQLite.
    InsideSqlite sqlite;
    /// The store of code that runs in an object, over key-value storage.
    InsideKeyValue key_value;
}
