//! Denials and errors as clients read them: problem documents (RFC 9457) over HTTP, statuses with
//! details over gRPC.

use core::fmt::Write;
use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tollgate_core::{Code, Decision, Error, OutageMode, Verdict};

use crate::status::{GrpcCode, Status};

/// The problem types of draft-ietf-httpapi-ratelimit-headers-11, with their titles.
const QUOTA_EXCEEDED: (&str, &str) =
    ("https://iana.org/assignments/http-problem-types#quota-exceeded", "Quota Exceeded");
const REDUCED_CAPACITY: (&str, &str) = (
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
    "Temporary Reduced Capacity",
);
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const MS_PER_S: u64 = 1_000;

/// The number of headers of a denial with the default fields, and of the length that servers add.
/// Allocators are slower with the next larger map.
const HEADERS: usize = 6;

/// A denial, or an error that left a request undecided.
///
/// ```
/// use tollgate_core::Error;
/// use tollgate_http::Problem;
///
/// let error = Error::invalid("cost", "is 0; accepted: 1 or more");
/// let response = Problem::from(&error).to_http();
/// assert_eq!(response.status(), 400);
/// assert_eq!(response.headers()["content-type"], "application/problem+json");
/// assert!(response.body().contains(r#""field":"cost""#));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Problem<'a> {
    pub(crate) http: StatusCode,
    pub(crate) grpc: GrpcCode,
    /// The problem type and its title; without one, the title is that of the status.
    kind: Option<(&'static str, &'static str)>,
    detail: Detail<'a>,
    code: Option<Code>,
    pub(crate) field: Option<&'a str>,
    pub(crate) violated: &'a [&'a str],
    pub(crate) retry_after_ms: Option<u64>,
}

/// A sentence for people.
#[derive(Clone, Debug)]
enum Detail<'a> {
    Text(Cow<'a, str>),
    /// The detail of most denials, which is written without an allocation.
    TryAgain {
        wait_ms: u64,
    },
}

impl<'a> Problem<'a> {
    /// A decision that denies a request, and the names of the limits that deny it.
    ///
    /// A request that was denied because the store could not answer is 503: the caller is not at
    /// fault.
    pub fn denied(decision: &Decision, violated: &'a [&'a str]) -> Self {
        let quota = (StatusCode::TOO_MANY_REQUESTS, GrpcCode::ResourceExhausted, QUOTA_EXCEEDED);
        let outage = (StatusCode::SERVICE_UNAVAILABLE, GrpcCode::Unavailable, REDUCED_CAPACITY);
        let is_closed = decision.degraded == Some(OutageMode::Closed);
        let ((http, grpc, kind), detail, retry_after_ms) =
            match (decision.verdict, decision.retry_after_ms) {
                (Verdict::Never, _) => {
                    let detail =
                        "the request costs more than the quota ever grants; waiting is useless";
                    (quota, Detail::Text(detail.into()), None)
                }
                (_, wait) if is_closed => {
                    let detail = "the limit cannot be checked at the moment";
                    (outage, Detail::Text(detail.into()), wait)
                }
                (_, Some(wait_ms)) => (quota, Detail::TryAgain { wait_ms }, Some(wait_ms)),
                (_, None) => (quota, Detail::Text("the quota is used up".into()), None),
            };
        let kind = Some(kind);
        Self { http, grpc, kind, detail, code: None, field: None, violated, retry_after_ms }
    }

    /// An error by its code, with a sentence for people.
    pub fn new(code: Code, detail: impl Into<Cow<'a, str>>) -> Self {
        let Status { http, grpc, retry_after_ms, .. } = Status::of(code);
        let (kind, code, detail) = (None, Some(code), Detail::Text(detail.into()));
        Self { http, grpc, kind, detail, code, field: None, violated: &[], retry_after_ms }
    }

    /// Names the field at fault.
    pub const fn field(mut self, field: Option<&'a str>) -> Self {
        self.field = field;
        self
    }

    /// Other statuses than those of the code.
    pub const fn status(mut self, http: StatusCode, grpc: GrpcCode) -> Self {
        self.http = http;
        self.grpc = grpc;
        self
    }

    /// Another wait than that of the code; `None` when waiting is useless.
    pub const fn retry_after_ms(mut self, retry_after_ms: Option<u64>) -> Self {
        self.retry_after_ms = retry_after_ms;
        self
    }

    pub(crate) fn detail(&self) -> Cow<'_, str> {
        match &self.detail {
            Detail::Text(text) => text.as_ref().into(),
            Detail::TryAgain { wait_ms } => {
                let mut text = String::new();
                push_try_again(&mut text, *wait_ms);
                text.into()
            }
        }
    }

    /// A response with a problem document.
    #[must_use]
    pub fn to_http(&self) -> Response<String> {
        let mut headers = HeaderMap::with_capacity(HEADERS);
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        self.response(self.json(), self.http, headers)
    }

    /// A response with what HTTP and gRPC have in common.
    pub(crate) fn response(
        &self,
        body: String,
        status: StatusCode,
        mut headers: HeaderMap,
    ) -> Response<String> {
        if let Some(wait_ms) = self.retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait_ms.div_ceil(MS_PER_S)));
        }
        // RFC 6585: a cache must not store a 429. The other refusals are as short-lived.
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    fn json(&self) -> String {
        let reason = self.http.canonical_reason().unwrap_or("Error");
        let (kind, title) = self.kind.unwrap_or(("about:blank", reason));
        let mut json = String::with_capacity(256);
        for piece in ["{\"type\":\"", kind, "\",\"title\":\"", title, "\",\"status\":"] {
            json.push_str(piece);
        }
        json.push_str(self.http.as_str());
        json.push_str(",\"detail\":");
        match &self.detail {
            Detail::Text(text) => push_text(&mut json, text),
            Detail::TryAgain { wait_ms } => {
                json.push('"');
                push_try_again(&mut json, *wait_ms);
                json.push('"');
            }
        }
        if !self.violated.is_empty() {
            json.push_str(",\"violated-policies\":[");
            for (index, name) in self.violated.iter().enumerate() {
                json.push_str(if index > 0 { "," } else { "" });
                push_text(&mut json, name);
            }
            json.push(']');
        }
        if let Some(field) = self.field {
            json.push_str(",\"field\":");
            push_text(&mut json, field);
        }
        if let Some(code) = self.code {
            json.push_str(",\"code\":");
            push_text(&mut json, code.as_str());
        }
        if let Some(wait_ms) = self.retry_after_ms {
            json.push_str(",\"retry_after_ms\":");
            json.push_str(itoa::Buffer::new().format(wait_ms));
        }
        json.push('}');
        json
    }
}

/// With the message of the error: for callers that may read it.
impl<'a> From<&'a Error> for Problem<'a> {
    fn from(error: &'a Error) -> Self {
        Self::new(error.code(), error.message()).field(error.field())
    }
}

fn push_try_again(text: &mut String, wait_ms: u64) {
    text.push_str("try again in ");
    text.push_str(itoa::Buffer::new().format(wait_ms));
    text.push_str(" ms");
}

/// A JSON string (RFC 8259).
fn push_text(json: &mut String, text: &str) {
    json.push('"');
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        json.push_str(text);
        json.push('"');
        return;
    }
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            c if c < ' ' => {
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut json = String::new();
        push_text(&mut json, "a\"b\\c\n\u{1}ü");
        assert_eq!(json, "\"a\\\"b\\\\c\\u000a\\u0001ü\"");
    }

    #[test]
    fn denials_are_429_and_outages_503() {
        let denied = Decision::denied(10, 0, 5_000, 1_500);
        let response = Problem::denied(&denied, &["per-ip"]).to_http();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (429, &"2".parse().unwrap())
        );
        assert_eq!(
            response.body(),
            "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\
             \"title\":\"Quota Exceeded\",\"status\":429,\"detail\":\"try again in 1500 ms\",\
             \"violated-policies\":[\"per-ip\"],\"retry_after_ms\":1500}"
        );
        let mut closed = denied;
        closed.degraded = Some(OutageMode::Closed);
        let response = Problem::denied(&closed, &["per-ip"]).to_http();
        assert_eq!(response.status().as_u16(), 503);
        assert!(response.body().contains("#temporary-reduced-capacity\""), "{}", response.body());
    }

    #[test]
    fn errors_have_their_code_field_and_wait() {
        let busy = Error::new(Code::QueueFull, "the queue is full");
        let response = Problem::from(&busy).to_http();
        assert_eq!(
            response.body(),
            "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\
             \"detail\":\"the queue is full\",\"code\":\"queue_full\",\"retry_after_ms\":1000}"
        );
        let wrong = Error::invalid("body", "is too long");
        let large = Problem::from(&wrong)
            .status(StatusCode::PAYLOAD_TOO_LARGE, GrpcCode::InvalidArgument)
            .to_http();
        assert_eq!(large.status().as_u16(), 413);
        assert!(large.headers().get("retry-after").is_none());
        assert!(large.body().ends_with("\"field\":\"body\",\"code\":\"invalid_request\"}"));
    }
}
