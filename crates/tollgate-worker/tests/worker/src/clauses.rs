//! Clauses by their names.

use core::time::Duration;

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Limit, Limiter, Quota};
use tollgate_testkit::conformance::{self, Options, Suite};
use tollgate_testkit::helpers;
use tollgate_worker::WorkerClock;
use worker::{Response, Result};

use crate::fragile;
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
    match clause {
        "take_in_the_past" => {
            let limit = Limit::gcra("past", Quota::new(10, Duration::from_secs(1)));
            let limit = limit.and_then(|limit| limit.with_prefix(prefix));
            let limit = limit.map_err(|error| error.to_string())?;
            let past = CallContext::at(1_700_000_000_000_000);
            let taken = helpers::take(&store, limit.charge("key"), past).await;
            taken.map_err(|error| error.to_string())?;
        }
        "several_subjects" => several_subjects(&store, prefix).await,
        "an_error_undoes_what_was_charged" => {
            fragile::an_error_undoes_what_was_charged(&store, prefix).await;
        }
        "the_outage_mode_decides" => fragile::the_outage_mode_decides(store, prefix).await,
        _ => return run_of_suite(store, options, (clause, prefix)).await,
    }
    Response::ok("passed")
}

async fn run_of_suite<S: Store>(
    store: S,
    options: Options,
    (clause, prefix): (&str, &str),
) -> Result<Response> {
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
