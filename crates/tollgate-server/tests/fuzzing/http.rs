//! Bodies and queries of the HTTP API.

use std::cell::LazyCell;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Uri};
use serde_json::Value;
use tollgate_service::api::OPENAPI;

use super::{Fixture, choose};
use crate::http::answer;

const PATHS: [&str; 7] = [
    "/v1/acquire",
    "/v1/acquire_many",
    "/v1/peek",
    "/v1/forecast",
    "/v1/refund",
    "/v1/reset",
    "/v1/gate",
];

struct Http {
    fixture: Fixture,
    documented: Value,
}

thread_local! {
    static HTTP: LazyCell<Http> = LazyCell::new(|| Http {
        fixture: Fixture::new(),
        documented: serde_json::from_str(OPENAPI).unwrap_or_default(),
    });
}

/// The first byte chooses a path; the rest is the body of a request, or the query of the gate.
///
/// # Panics
/// When the response is no JSON, is not documented, or is a failure of the server.
pub fn http(bytes: &[u8]) {
    let Some((path, rest)) = choose(bytes, &PATHS) else { return };
    let (uri, body) = match path {
        "/v1/gate" => (format!("{path}?{}", String::from_utf8_lossy(rest)), Bytes::new()),
        _ => (path.to_owned(), Bytes::copy_from_slice(rest)),
    };
    // No client can send a text that is no URI.
    let Ok(uri) = Uri::try_from(uri) else { return };
    HTTP.with(|http| {
        let mut request = Request::post(uri).body(Full::new(body)).unwrap_or_default();
        request.headers_mut().clear();
        request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        let (status, body) = http.fixture.run(async {
            let response = answer(&http.fixture.app, &http.fixture.client, request).await;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await;
            (status, body.map(|body| body.to_bytes()).unwrap_or_default())
        });
        let text = String::from_utf8_lossy(&body);
        assert_ne!(status, 500, "{path}: {text}");
        let place = format!("/paths/{}/post/responses/{status}", path.replace('/', "~1"));
        assert!(http.documented.pointer(&place).is_some(), "{path}: {status} is not documented");
        let is_empty = path == "/v1/gate" && body.is_empty();
        assert!(is_empty || serde_json::from_slice::<Value>(&body).is_ok(), "{path}: {text}");
    });
}
