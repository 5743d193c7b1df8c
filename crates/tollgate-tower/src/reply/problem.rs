//! Refusals over HTTP: `application/problem+json` (RFC 9457) with the problem types of the draft.

use core::fmt::Write;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};

use super::status::Status;
use super::{Refusal, with_headers};

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

pub(super) fn response(refusal: &Refusal<'_>, status: &Status) -> Response<Bytes> {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
    with_headers(Bytes::from(body(refusal, status)), status.http, headers)
}

fn body(refusal: &Refusal<'_>, status: &Status) -> String {
    let reason = status.http.canonical_reason().unwrap_or_default();
    let (kind, title) = status.kind.unwrap_or(("about:blank", reason));
    let mut json = String::with_capacity(256);
    let _ = write!(json, "{{\"type\":\"{kind}\",\"title\":\"{title}\"");
    let _ = write!(json, ",\"status\":{},\"detail\":", status.http.as_u16());
    push_text(&mut json, &status.detail(refusal));
    match refusal {
        Refusal::Denied { violated, .. } => {
            json.push_str(",\"violated-policies\":[");
            for (index, name) in violated.iter().enumerate() {
                json.push_str(if index > 0 { "," } else { "" });
                push_text(&mut json, name);
            }
            json.push(']');
        }
        Refusal::Undecided(error) => push_field(&mut json, error.field()),
        Refusal::Unkeyed(unkeyed) => push_field(&mut json, Some(&unkeyed.field)),
    }
    if let Some(code) = status.code {
        let _ = write!(json, ",\"code\":\"{code}\"");
    }
    if let Some(wait_ms) = status.retry_after_ms {
        let _ = write!(json, ",\"retry_after_ms\":{wait_ms}");
    }
    json.push('}');
    json
}

fn push_field(json: &mut String, field: Option<&str>) {
    if let Some(field) = field {
        json.push_str(",\"field\":");
        push_text(json, field);
    }
}

/// A JSON string (RFC 8259).
fn push_text(json: &mut String, text: &str) {
    json.push('"');
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
}
