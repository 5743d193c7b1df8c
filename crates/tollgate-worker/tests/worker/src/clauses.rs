//! Clauses by their names.

use core::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Limit, Limiter, Quota};
use tollgate_testkit::conformance::{self, Options, Suite};
use tollgate_worker::WorkerClock;
use worker::{Response, Result};

use crate::several::several_subjects;

/// Takes one of ten units of the key of a prefix; how many are left.
async fn take<S: Store>(store: S, prefix: &str) -> tollgate_core::Result<u64> {
    let limit = Limit::gcra("take", Quota::new(10, Duration::from_secs(30 * 86_400)))?;
    let limit = limit.with_prefix(prefix)?;
    let limiter = Limiter::with_clock(store, WorkerClock).deadline(Duration::from_secs(30));
    Ok(limiter.build().check(limit.charge("key")).await?.remaining)
}

/// Runs a clause with names of its own; panics when the store breaks it.
pub(crate) async fn run<S: Store>(
    store: S,
    options: Options,
    (clause, prefix): (&str, &str),
) -> Result<Response> {
    if clause == "take" {
        let left = take(store, prefix).await.map_err(|error| error.to_string())?;
        return Response::ok(left.to_string());
    }
    if clause == "several_subjects" {
        several_subjects(&store, prefix).await;
        return Response::ok("passed");
    }
    let suite = Suite::with_prefix(&store, options, prefix);
    macro_rules! run {
        ($($name:ident)*) => {
            match clause {
                $(stringify!($name) => conformance::$name(&suite).await,)*
                _ => return Response::error("no such clause", 404),
            }
        };
    }
    tollgate_testkit::each_clause! { [run] }
    Response::ok("passed")
}
