//! Requests of the HTTP API and of operators: their bodies and queries, their headers, and the
//! receipts in them.

use std::cell::LazyCell;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use hyper::{Method, Request, Uri};
use serde_json::Value;
use tollgate_service::api::OPENAPI;

use super::{Fixture, choose};
use crate::http::answer;

/// `RECEIPT` and `FINAL_COST` are a refund and a settlement whose receipt has the rest as its
/// content, under a valid code. Seeds begin with places in this list: a new one comes last.
const PATHS: [&str; 14] = [
    "/v1/acquire",
    "/v1/acquire_many",
    "/v1/peek",
    "/v1/forecast",
    "/v1/refund",
    "/v1/reset",
    "/v1/gate",
    RECEIPT,
    "/v1/settle",
    FINAL_COST,
    "/v1/limits",
    "/v1/inspect",
    STATUS,
    EVENTS,
];
const STATUS: &str = "/v1/status";
const EVENTS: &str = "/v1/events";
const GATE: &str = "/v1/gate";
const REFUND: &str = "/v1/refund";
const SETTLE: &str = "/v1/settle";
const RECEIPT: &str = "receipt";
const FINAL_COST: &str = "final cost";

/// How many headers the input has, and whether the server has tokens.
const HEADS: [(usize, bool); 8] =
    [(0, false), (1, false), (2, false), (3, false), (0, true), (1, true), (2, true), (3, true)];

/// The headers that decide whether and how a request is answered.
const HEADERS: [HeaderName; 8] = [
    HOST,
    ORIGIN,
    HeaderName::from_static("sec-fetch-site"),
    AUTHORIZATION,
    EXPECT,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("content-type"),
];

struct Http {
    open: Fixture,
    guarded: Fixture,
    documented: Value,
}

thread_local! {
    static HTTP: LazyCell<Http> = LazyCell::new(|| Http {
        open: Fixture::new(),
        guarded: Fixture::with(&|name| match name {
            "TOLLGATE_TOKENS" => Some("token-of-a-caller".to_owned()),
            "TOLLGATE_ADMIN_TOKENS" => Some("token-of-an-admin".to_owned()),
            _ => None,
        }),
        documented: serde_json::from_str(OPENAPI).unwrap_or_default(),
    });
}

/// The first byte chooses a path, the second a server and how many headers follow: each is a byte
/// that chooses a name, and a value that ends with a line feed. The rest is the body of the
/// request, or the query of the gate, or the content of a receipt.
///
/// # Panics
/// When the response is no JSON, is not documented, or is a failure of the server.
pub fn http(bytes: &[u8]) {
    let Some((path, rest)) = choose(bytes, &PATHS) else { return };
    let Some(((count, has_tokens), rest)) = choose(rest, &HEADS) else { return };
    let Some((headers, rest)) = headers(count, rest) else { return };
    HTTP.with(|http| {
        let fixture = if has_tokens { &http.guarded } else { &http.open };
        let (path, query, body) = match path {
            GATE => (GATE, format!("?{}", String::from_utf8_lossy(rest)), Vec::new()),
            RECEIPT => {
                let receipt = fixture.receipts.seal_bytes(rest.to_vec());
                (REFUND, String::new(), format!(r#"{{"receipt":"{receipt}"}}"#).into_bytes())
            }
            FINAL_COST => {
                let receipt = fixture.receipts.seal_bytes(rest.to_vec());
                let body = format!(r#"{{"receipt":"{receipt}","costs":{{"limits[0]":9}}}}"#);
                (SETTLE, String::new(), body.into_bytes())
            }
            _ => (path, String::new(), rest.to_vec()),
        };
        // No client can send a text that is no URI.
        let Ok(uri) = Uri::try_from(format!("{path}{query}")) else { return };
        let method = if [STATUS, EVENTS].contains(&path) { Method::GET } else { Method::POST };
        let place = method.as_str().to_lowercase();
        let mut request = Request::new(Full::new(Bytes::from(body)));
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        *request.headers_mut() = headers;
        let answered = fixture.run(async {
            let response = tokio::select! {
                biased;
                response = answer(&fixture.app, &fixture.client, request) => response,
                () = turns() => return None,
            };
            let status = response.status().as_u16();
            if (path, status) == (EVENTS, 200) {
                // A stream without an end, of the same status.
                return Some((status, Bytes::from_static(b"{}")));
            }
            let body = response.into_body().collect().await;
            Some((status, body.map(|body| body.to_bytes()).unwrap_or_default()))
        });
        let Some((status, body)) = answered else {
            // A failed attempt to authenticate is delayed. Nothing else takes time here.
            return assert!(has_tokens, "{path} waits");
        };
        let text = String::from_utf8_lossy(&body);
        assert!(status < 500, "{path}: {status} {text}");
        let place = format!("/paths/{}/{place}/responses/{status}", path.replace('/', "~1"));
        assert!(http.documented.pointer(&place).is_some(), "{path}: {status} is not documented");
        let is_empty = path == GATE && body.is_empty();
        assert!(is_empty || serde_json::from_slice::<Value>(&body).is_ok(), "{path}: {text}");
    });
}

/// More than a batch takes to let other connections be read.
async fn turns() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

/// The headers, and the rest; `None` when they are incomplete or no headers.
fn headers(count: usize, bytes: &[u8]) -> Option<(HeaderMap, &[u8])> {
    let (mut headers, mut rest) = (HeaderMap::new(), bytes);
    for _ in 0..count {
        let index = usize::from(*rest.first()?).checked_rem(HEADERS.len())?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let value = HeaderValue::from_bytes(rest.get(1..end)?).ok()?;
        headers.append(HEADERS.get(index)?, value);
        rest = rest.get(end + 1..)?;
    }
    if !headers.contains_key(HOST) {
        headers.insert(HOST, HeaderValue::from_static("localhost"));
    }
    Some((headers, rest))
}
