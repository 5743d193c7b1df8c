//! A Worker that limits its own routes: 10 requests per minute for each client address.
#![expect(missing_docs, reason = "the macros document nothing that they make")]

use tollgate_core::{Limit, Quota};
use tollgate_worker::DurableObjects;
use tollgate_worker::guard::Guard;
use worker::{Context, Env, Request, Response, Result, event};

tollgate_worker::limits_object!(Limits, sqlite);

#[event(fetch)]
async fn fetch(request: Request, env: Env, _: Context) -> Result<Response> {
    let limit = Limit::gcra("hello", Quota::per_minute(10)).map_err(|error| error.to_string())?;
    let guard = Guard::new(DurableObjects::new(env.durable_object("LIMITS")?), limit);
    guard.run(request, |_| async { Response::ok("hello\n") }).await
}
