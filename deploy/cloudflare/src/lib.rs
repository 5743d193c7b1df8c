//! The HTTP API of Tollgate in a Cloudflare Worker. `wrangler.toml` has its settings and bindings,
//! `policies.yaml` its policies.
#![expect(missing_docs, reason = "the macros document nothing that they make")]

use std::cell::OnceCell;

use tollgate_service::Api;
use tollgate_service::api::failure;
use tollgate_worker::api::{self, api_from_env, handle};
use tollgate_worker::guard::to_worker;
use worker::{Context, Env, Request, Response, Result, ScheduleContext, ScheduledEvent, event};

/// The policies of a Worker without the variable `TOLLGATE_POLICIES`.
const POLICIES: &str = include_str!("../policies.yaml");

tollgate_worker::limits_object!(TollgateLimits, sqlite);

thread_local! {
    /// Made by the first request. It has no state that requests could not share.
    static API: OnceCell<Api> = const { OnceCell::new() };
}

fn api(env: &Env) -> tollgate_worker::Result<Api> {
    API.with(|api| match api.get() {
        Some(api) => Ok(api.clone()),
        None => {
            let made = api_from_env(env, POLICIES)?;
            Ok(api.get_or_init(|| made).clone())
        }
    })
}

/// Answers a request.
#[event(fetch)]
async fn fetch(request: Request, env: Env, _: Context) -> Result<Response> {
    match api(&env) {
        Ok(api) => handle(&api, request).await,
        Err(error) => to_worker(failure(&error.into())),
    }
}

/// Deletes rows of D1 that mean nothing any more.
#[event(scheduled)]
async fn scheduled(_: ScheduledEvent, env: Env, _: ScheduleContext) {
    api::scheduled(&env).await;
}
