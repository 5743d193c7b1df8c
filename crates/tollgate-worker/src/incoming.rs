//! Requests of the runtime, in the types that the HTTP API takes.
//!
//! The conversion of `worker` fails for requests that the server accepts, such as one with a header
//! that is not ASCII. This one leaves out what the API cannot read.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use tollgate_core::Error;
use tollgate_service::api::{BODY_MAX_BYTES, REQUEST_HEADERS, Rejection};
use worker::Request;
use worker::js_sys::{Reflect, Uint8Array};
use worker::wasm_bindgen::{JsCast as _, JsValue};
use worker::wasm_bindgen_futures::JsFuture;
use worker::web_sys::ReadableStreamDefaultReader;

/// What the API finds the endpoint and the rights of the client by.
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
}

impl Head {
    pub(crate) fn of(request: &Request) -> Result<Self, Rejection> {
        let raw = request.inner();
        let cannot_be_read =
            |field: &'static str| Rejection::Failed(Error::invalid(field, "cannot be read"));
        let method = Method::from_bytes(raw.method().as_bytes());
        let method = method.map_err(|_| cannot_be_read("method"))?;
        let uri = Uri::try_from(raw.url()).map_err(|_| cannot_be_read("path"))?;
        Ok(Self { method, uri, headers: headers_of(request) })
    }
}

/// Only what the API reads: to know any header by its name takes much code.
fn headers_of(request: &Request) -> HeaderMap {
    let value = |name: &HeaderName| {
        let text = request.headers().get(name.as_str()).ok()??;
        HeaderValue::try_from(text.into_bytes()).ok()
    };
    let both = |name: HeaderName| value(&name).map(|value| (name, value));
    REQUEST_HEADERS.into_iter().filter_map(both).collect()
}

/// The body, within its bound. How long a client may take is bounded by the runtime.
pub(crate) async fn body_of(request: &Request) -> Result<Vec<u8>, Rejection> {
    let Some(stream) = request.inner().body() else { return Ok(Vec::new()) };
    let reader: ReadableStreamDefaultReader = stream.get_reader().unchecked_into();
    let mut body = Vec::new();
    // What breaks off is refused as what is too long.
    while let Some(chunk) = next(&reader).await.map_err(|_| Rejection::BodyTooLarge)? {
        if chunk.len() > BODY_MAX_BYTES - body.len() {
            return Err(Rejection::BodyTooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The next part of a body, until it ends.
async fn next(reader: &ReadableStreamDefaultReader) -> Result<Option<Vec<u8>>, JsValue> {
    let read = JsFuture::from(reader.read()).await?;
    if Reflect::get(&read, &JsValue::from_str("done"))?.is_truthy() {
        return Ok(None);
    }
    let chunk: Uint8Array = Reflect::get(&read, &JsValue::from_str("value"))?.dyn_into()?;
    Ok(Some(chunk.to_vec()))
}
