//! A Worker that runs clauses of the conformance suite, one per request, over the stores of
//! Cloudflare: `/STORE/CLAUSE?prefix=P`. A clause that panics fails its request; the log has why.
//! `/STORE/take?prefix=P` takes one of ten units and returns how many are left.
#![expect(clippy::panic, reason = "in a test, a panic is the message")]

mod clauses;
mod evict;
mod fragile;
mod objects;
mod reclaim;
mod several;
mod stores;

use worker::{Context, Env, Request, Response, Result, ScheduleContext, ScheduledEvent, event};

#[event(start)]
fn start() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        worker::console_error!("{info}");
        before(info);
    }));
}

#[event(fetch)]
async fn fetch(request: Request, env: Env, _: Context) -> Result<Response> {
    let url = request.url()?;
    let path: Vec<&str> = url.path().trim_matches('/').split('/').collect();
    let prefix = url.query_pairs().find(|(name, _)| name == "prefix");
    let prefix = prefix.map(|(_, value)| value.into_owned()).unwrap_or_default();
    match *path {
        [""] => Response::ok("ready"),
        ["panic"] => panic!("as it was asked to"),
        ["evict"] => evict::all_objects().await,
        ["made"] => Response::ok(objects::made().to_string()),
        ["reclaimed_sqlite", clause] => {
            reclaim::run(&env, "RECLAIMED_SQLITE", (clause, &prefix)).await
        }
        ["reclaimed_key_value", clause] => {
            reclaim::run(&env, "RECLAIMED_KEY_VALUE", (clause, &prefix)).await
        }
        [store, clause] => stores::run(&env, store, (clause, &prefix)).await,
        _ => Response::error("no such path", 404),
    }
}

/// As the ready Worker does.
#[event(scheduled)]
async fn scheduled(_: ScheduledEvent, env: Env, _: ScheduleContext) {
    tollgate_worker::api::scheduled(&env).await;
}
