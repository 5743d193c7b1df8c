//! The HTTP API of the server in a Worker: the same policies, tokens, endpoints and bytes.
//!
//! Everything that decides is `tollgate-service`. Here a request of the runtime becomes one of that
//! crate, and its response becomes one of the runtime. [`api_from_env`] reads the settings.

use bytes::Bytes;
use tollgate_core::store::{BoxStore, Store as _};
use tollgate_core::{Error, Result};
use tollgate_service::api::{Rejection, Response as ApiResponse, failure};
use tollgate_service::auth::{Token, validate_tokens};
use tollgate_service::config::{policies_with_secret, values};
use tollgate_service::policy::AD_HOC_POLICY;
use tollgate_service::receipt::{ReceiptKey, validate_secret};
use tollgate_service::{Api, Auth, Engine, Policies};
use worker::js_sys::{Object, Reflect};
use worker::wasm_bindgen::{JsCast as _, JsValue};
use worker::{Env, Request, Response};

use crate::guard::to_worker;
use crate::incoming::{Head, body_of};
use crate::limiter::limiter;
use crate::{D1, DurableObjects, PerCall, WorkersKv};

/// The binding of the D1 database.
pub const DATABASE: &str = "TOLLGATE_DB";
/// The other bindings of stores.
const DURABLE_OBJECT: &str = "TOLLGATE_LIMITS";
const NAMESPACE: &str = "TOLLGATE_KV";
/// How long a store may take unless another time is set: an object may be on another continent.
const DEFAULT_DEADLINE: &str = "1s";
const DEFAULT_SHARDS: &str = "64";

/// Makes the API of a Worker from its variables, secrets and bindings.
///
/// | variable | default | meaning |
/// |---|---|---|
/// | `TOLLGATE_POLICIES` | `policies` | policies in YAML, as the server reads them |
/// | `TOLLGATE_STORE` | `durable_object` | `durable_object`, `d1` or `kv` |
/// | `TOLLGATE_SHARDS` | `64` | the number of Durable Objects |
/// | `TOLLGATE_DEADLINE` | `1s` | how long the store may take |
/// | `TOLLGATE_TOKENS` | | tokens of callers: `token,token:policy+policy` |
/// | `TOLLGATE_ADMIN_TOKENS` | | tokens that may also reset keys and refund without a receipt |
/// | `TOLLGATE_HASH_SECRET` | | the secret of key hashes |
/// | `TOLLGATE_RECEIPT_SECRET` | `TOLLGATE_HASH_SECRET` | the secret of receipts |
/// | `TOLLGATE_INSECURE_PUBLIC` | `false` | allows callers without tokens |
///
/// The bindings are `TOLLGATE_LIMITS` (a Durable Object), `TOLLGATE_DB` (D1) and `TOLLGATE_KV`;
/// only that of the chosen store is needed.
///
/// # Errors
/// `config_invalid` naming the setting.
pub fn api_from_env(env: &Env, policies: &str) -> Result<Api> {
    let text = setting(env, "TOLLGATE_POLICIES", policies);
    let secret = setting(env, "TOLLGATE_HASH_SECRET", "");
    let receipt_secret = setting(env, "TOLLGATE_RECEIPT_SECRET", "");
    validate_secret(&receipt_secret)?;
    let policies = policies_with_secret(&text, &secret)
        .map_err(|errors| Error::config("policies", errors.to_string()))?;
    let deadline = setting(env, "TOLLGATE_DEADLINE", DEFAULT_DEADLINE);
    let deadline = values::duration(&deadline).map_err(|e| Error::config("deadline", e))?;
    let auth = auth(env, &policies)?;
    let store = store(env)?;
    if !store.capability().bounded_ids {
        policies.refuse_bounds_on_ids()?;
    }
    let limiter = limiter(store).deadline(deadline).build();
    let mut engine = Engine::new(limiter, policies);
    if let Some(key) = ReceiptKey::of_secrets(&receipt_secret, &secret) {
        engine = engine.with_receipt_key(key);
    }
    Ok(Api::new(engine, auth))
}

fn store(env: &Env) -> Result<BoxStore> {
    match &*setting(env, "TOLLGATE_STORE", "durable_object") {
        "durable_object" => {
            let shards = setting(env, "TOLLGATE_SHARDS", DEFAULT_SHARDS);
            let shards = shards.parse().map_err(|_| {
                Error::config("shards", "is not a whole number; accepted: 1 to 1048576")
            })?;
            let namespace = env.durable_object(DURABLE_OBJECT).map_err(no_binding)?;
            Ok(BoxStore::new(DurableObjects::with_shards(namespace, shards)?))
        }
        "d1" => {
            let env = env.clone();
            let open = move || env.d1(DATABASE).map(D1::new).map_err(no_binding);
            Ok(BoxStore::new(PerCall::new(open)?))
        }
        "kv" => Ok(BoxStore::new(WorkersKv::new(env.kv(NAMESPACE).map_err(no_binding)?))),
        _ => Err(Error::config("store", "accepted: durable_object, d1, kv")),
    }
}

fn auth(env: &Env, policies: &Policies) -> Result<Auth> {
    let [callers, admins] =
        ["TOLLGATE_TOKENS", "TOLLGATE_ADMIN_TOKENS"].map(|name| setting(env, name, ""));
    let exists = |name: &str| name == AD_HOC_POLICY || policies.find(name).is_ok();
    let tokens = |field, text| {
        let tokens = Token::list(text);
        let tokens = tokens.and_then(|all| validate_tokens(&all, exists).map(|()| all));
        tokens.map_err(|why| Error::config(field, why))
    };
    let (callers, admins) = (tokens("tokens", &callers)?, tokens("admin_tokens", &admins)?);
    if callers.is_empty() && setting(env, "TOLLGATE_INSECURE_PUBLIC", "false") != "true" {
        let message = "is missing: a Worker is public. Set TOLLGATE_TOKENS, or \
                       TOLLGATE_INSECURE_PUBLIC to true";
        return Err(Error::config("tokens", message));
    }
    // A Worker is public: without tokens, clients are callers, and none is an administrator.
    Ok(Auth::of_tokens(callers, admins).only_callers())
}

/// A variable or a secret, as text. `wrangler.toml` may also state it as a number, a boolean or a
/// list.
fn setting(env: &Env, name: &str, default: &str) -> String {
    let found = Reflect::get(env, &JsValue::from_str(name)).unwrap_or_default();
    if found.is_undefined() || found.is_null() {
        return default.to_owned();
    }
    found.unchecked_into::<Object>().to_string().into()
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn no_binding(error: worker::Error) -> Error {
    Error::config("store", format!("has no binding: {error}"))
}

/// Deletes the rows of D1 that mean nothing any more, if there is a database: for a cron trigger.
/// The other stores reclaim their storage themselves. A failure is logged; the next trigger goes
/// on.
pub async fn scheduled(env: &Env) {
    let Ok(database) = env.d1(DATABASE) else { return };
    let store = D1::new(database);
    loop {
        match store.reclaim().await {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => return worker::console_error!("{error}"),
        }
    }
}

/// Answers a request of the runtime.
///
/// # Errors
/// When the response cannot be made.
pub async fn handle(api: &Api, request: Request) -> worker::Result<Response> {
    let answered = answer(api, &request).await;
    to_worker(answered.unwrap_or_else(Rejection::response))
}

async fn answer(api: &Api, request: &Request) -> core::result::Result<ApiResponse, Rejection> {
    let Head { method, uri, headers } = Head::of(request)?;
    let is_read = matches!(method.as_str(), "GET" | "HEAD");
    Ok(match uri.path() {
        "/healthz" | "/readyz" if !is_read => return Err(Rejection::MethodNotAllowed("GET,HEAD")),
        "/healthz" => text("ok\n"),
        "/readyz" => match api.engine().probe().await {
            Ok(()) => text("ready\n"),
            Err(error) => failure(&error),
        },
        _ => {
            let route = api.route(&method, &uri, &headers)?;
            let body = match route.endpoint.reads_body() {
                true => body_of(request).await?,
                false => Vec::new(),
            };
            api.answer(&route, uri.query(), &body).await
        }
    })
}

fn text(body: &'static str) -> ApiResponse {
    let mut response = ApiResponse::new(Bytes::from_static(body.as_bytes()));
    let kind = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}
