//! Clauses by their names.

use core::time::Duration;

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Limit, Limiter, OutageMode, Quota};
use tollgate_testkit::conformance::{self, Options, Suite};
use tollgate_testkit::helpers;
use tollgate_worker::WorkerClock;
use worker::{Response, Result};

use crate::fragile;
use crate::several::several_subjects;

/// Slow machines meet it.
const LONG: Duration = Duration::from_secs(30);
/// A caller whose instance has panicked gets its answer when this has passed.
const SHORT: Duration = Duration::from_secs(1);

/// Takes one of ten units of a subject; how many are left, or the outage mode that decided.
async fn take<S: Store>(
    store: S,
    prefix: &str,
    (subject, deadline): (&str, Duration),
) -> tollgate_core::Result<String> {
    let limit = Limit::gcra("take", Quota::new(10, Duration::from_secs(30 * 86_400)))?;
    let limit = limit.with_prefix(prefix)?.on_outage(OutageMode::Closed);
    let limiter = Limiter::with_clock(store, WorkerClock).deadline(deadline).build();
    let decision = limiter.check(limit.charge(subject)).await?;
    match decision.degraded {
        Some(mode) => Ok(mode.as_str().to_owned()),
        None if decision.is_allowed() => Ok(decision.remaining.to_string()),
        None => Ok("denied".to_owned()),
    }
}

/// Runs a clause with names of its own; panics when the store breaks it.
pub(crate) async fn run<S: Store>(
    store: S,
    options: Options,
    (clause, prefix): (&str, &str),
) -> Result<Response> {
    let taken = match clause {
        "take" => Some(("key", LONG)),
        "take_and_panic" => Some(("panics", SHORT)),
        _ => None,
    };
    if let Some(taken) = taken {
        let left = take(store, prefix, taken).await.map_err(|error| error.to_string())?;
        return Response::ok(left);
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
        "a_full_store_admits_none" => fragile::a_full_store_admits_none(store, prefix).await,
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
