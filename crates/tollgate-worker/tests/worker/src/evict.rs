//! Evicts objects, as the runtime does when it moves them or needs their memory: what they have in
//! memory is gone, and what they have stored stays.

use wasm_bindgen::prelude::wasm_bindgen;
use worker::js_sys::Promise;
use worker::wasm_bindgen_futures::JsFuture;
use worker::{Response, Result};

#[wasm_bindgen(module = "workerd:unsafe")]
extern "C" {
    type Unsafe;

    #[wasm_bindgen(thread_local_v2, js_name = default)]
    static UNSAFE: Unsafe;

    #[wasm_bindgen(method, js_name = abortAllDurableObjects)]
    fn abort_all_durable_objects(this: &Unsafe) -> Promise;
}

/// Evicts every object that is in memory.
pub(crate) async fn all_objects() -> Result<Response> {
    JsFuture::from(UNSAFE.with(Unsafe::abort_all_durable_objects)).await?;
    Response::ok("evicted")
}
