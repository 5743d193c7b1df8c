//! The classes of Durable Objects under test, by their storage.
//!
//! Readings of the suite lie in the past: nothing is reclaimed.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;

use tollgate_testkit::conformance::Options;
use tollgate_worker::{LimitsObject, ObjectStore};
use worker::{DurableObject, Env, Request, Response, Result, State, durable_object};

use crate::clauses;

/// How many request ids an object remembers that runs one clause. Objects that several clauses call
/// at once remember as many as by default: the clause that fills one would fail the others.
pub(crate) const RECORDS_MAX: usize = 60;

/// What the suite cannot find out about objects.
pub(crate) fn options(records_max: Option<usize>) -> Options {
    Options { injects_time: Some(true), records_max }
}

/// How many objects were made in this instance.
static MADE: AtomicU32 = AtomicU32::new(0);

pub(crate) fn made() -> u32 {
    MADE.load(Relaxed)
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
                    MADE.fetch_add(1, Relaxed);
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

macro_rules! inside {
    ($($(#[$doc:meta])* $name:ident $class:ident;)*) => {
        $(
            $(#[$doc])*
            #[durable_object(fetch)]
            #[derive(Debug)]
            pub struct $name(Arc<ObjectStore>);

            impl DurableObject for $name {
                fn new(state: State, _: Env) -> Self {
                    MADE.fetch_add(1, Relaxed);
                    let store = ObjectStore::$class(&state).reclaim_every(None);
                    Self(Arc::new(store.max_request_ids(RECORDS_MAX)))
                }

                /// Runs a clause inside of the object: `/CLAUSE/PREFIX`.
                async fn fetch(&self, request: Request) -> Result<Response> {
                    let path = request.path();
                    let (clause, prefix) =
                        path.trim_matches('/').split_once('/').unwrap_or_default();
                    let options = options(Some(RECORDS_MAX));
                    clauses::run(Arc::clone(&self.0), options, (clause, prefix)).await
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
