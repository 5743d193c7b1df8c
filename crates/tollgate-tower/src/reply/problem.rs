//! Refusals over HTTP: `application/problem+json` (RFC 9457) with the problem types of the draft.

use core::fmt::Write;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};

use super::status::Status;
use super::{Refusal, with_headers};

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// What a refusal has with the default headers, and the length that servers add. The next larger
/// map is of a size that allocators are slow to give.
const FIELDS: usize = 6;

pub(super) fn response(refusal: &Refusal<'_>, status: &Status) -> Response<Bytes> {
    let mut headers = HeaderMap::with_capacity(FIELDS);
    headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
    with_headers(Bytes::from(body(refusal, status)), status.http, headers)
}

fn body(refusal: &Refusal<'_>, status: &Status) -> String {
    let reason = status.http.canonical_reason().unwrap_or_default();
    let (kind, title) = status.kind.unwrap_or(("about:blank", reason));
    let mut json = String::with_capacity(256);
    for piece in ["{\"type\":\"", kind, "\",\"title\":\"", title, "\",\"status\":"] {
        json.push_str(piece);
    }
    json.push_str(status.http.as_str());
    json.push_str(",\"detail\":");
    match refusal {
        Refusal::Denied { decision, violated } => {
            json.push('"');
            status.push_denial(decision, &mut json);
            json.push_str("\",\"violated-policies\":[");
            for (index, name) in violated.iter().enumerate() {
                json.push_str(if index > 0 { "," } else { "" });
                push_text(&mut json, name);
            }
            json.push(']');
        }
        Refusal::Undecided(error) => {
            push_text(&mut json, &status.detail(refusal));
            push_field(&mut json, error.field());
        }
        Refusal::Unkeyed(unkeyed) => {
            push_text(&mut json, &status.detail(refusal));
            push_field(&mut json, Some(&unkeyed.field));
        }
    }
    if let Some(code) = status.code {
        let _ = write!(json, ",\"code\":\"{code}\"");
    }
    if let Some(wait_ms) = status.retry_after_ms {
        json.push_str(",\"retry_after_ms\":");
        json.push_str(itoa::Buffer::new().format(wait_ms));
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
}
