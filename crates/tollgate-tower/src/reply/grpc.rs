//! Refusals over gRPC: a response of headers only, with the status and its details.
//!
//! The details are `google.rpc.RetryInfo` and `google.rpc.QuotaFailure`, written by hand: three
//! small messages are no reason to depend on a protobuf library.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use super::status::Status;
use super::{Refusal, with_headers};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// Tells clients with a retry policy how long to wait, or by a negative number not to retry.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const MS_PER_S: u64 = 1_000;
const NANOS_PER_MS: u64 = 1_000_000;

pub(super) fn response(refusal: &Refusal<'_>, status: &Status) -> Response<Bytes> {
    let detail = status.detail(refusal);
    let mut headers = HeaderMap::with_capacity(10);
    headers.insert(header::CONTENT_TYPE, GRPC);
    headers.insert(STATUS, HeaderValue::from(u16::from(status.grpc)));
    if let Ok(message) = HeaderValue::from_str(&percent_encoded(&detail)) {
        headers.insert(MESSAGE, message);
    }
    if let Ok(details) = HeaderValue::from_str(&base64(&rpc_status(refusal, status, &detail))) {
        headers.insert(DETAILS, details);
    }
    match status.retry_after_ms {
        Some(wait_ms) => headers.insert(PUSHBACK, HeaderValue::from(wait_ms)),
        None => headers.insert(PUSHBACK, HeaderValue::from_static("-1")),
    };
    with_headers(Bytes::new(), StatusCode::OK, headers)
}

/// `google.rpc.Status`: code = 1, message = 2, details = 3 of `google.protobuf.Any`.
fn rpc_status(refusal: &Refusal<'_>, status: &Status, detail: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(192);
    push_number(&mut message, 1, u64::from(status.grpc));
    push_bytes(&mut message, 2, detail.as_bytes());
    if let Some(wait_ms) = status.retry_after_ms {
        push_any(&mut message, "type.googleapis.com/google.rpc.RetryInfo", &retry_info(wait_ms));
    }
    if let Refusal::Denied { violated, .. } = refusal {
        let failure = quota_failure(violated, detail);
        push_any(&mut message, "type.googleapis.com/google.rpc.QuotaFailure", &failure);
    }
    message
}

/// `retry_delay = 1` of `google.protobuf.Duration`: seconds = 1, nanos = 2.
fn retry_info(wait_ms: u64) -> Vec<u8> {
    let mut duration = Vec::new();
    push_number(&mut duration, 1, wait_ms / MS_PER_S);
    push_number(&mut duration, 2, wait_ms % MS_PER_S * NANOS_PER_MS);
    let mut info = Vec::new();
    push_bytes(&mut info, 1, &duration);
    info
}

/// `violations = 1`, each with subject = 1 (here the name of the limit) and description = 2.
fn quota_failure(violated: &[&str], description: &str) -> Vec<u8> {
    let mut failure = Vec::new();
    for name in violated {
        let mut violation = Vec::new();
        push_bytes(&mut violation, 1, name.as_bytes());
        push_bytes(&mut violation, 2, description.as_bytes());
        push_bytes(&mut failure, 1, &violation);
    }
    failure
}

/// One more of the details: type_url = 1, value = 2.
fn push_any(message: &mut Vec<u8>, type_url: &str, value: &[u8]) {
    let mut any = Vec::new();
    push_bytes(&mut any, 1, type_url.as_bytes());
    push_bytes(&mut any, 2, value);
    push_bytes(message, 3, &any);
}

/// Zero is the default of a number, and not written.
fn push_number(message: &mut Vec<u8>, field: u8, number: u64) {
    if number > 0 {
        message.push(field << 3);
        push_varint(message, number);
    }
}

fn push_bytes(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | 2);
    push_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

fn push_varint(message: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return message.push(low & 0x7f);
        }
        message.push(low | 0x80);
    }
}

/// Base64 without padding, as gRPC sends binary headers.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            let index = bits >> (18 - 6 * digit) & 63;
            let digit = usize::try_from(index).ok().and_then(|index| ALPHABET.get(index));
            text.push(digit.copied().map_or('=', char::from));
        }
    }
    text
}

/// What gRPC accepts in a message: printable ASCII but `%`, everything else by its bytes.
fn percent_encoded(text: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            encoded.push(char::from(byte));
            continue;
        }
        encoded.push('%');
        for digit in [byte >> 4, byte & 15] {
            encoded.push(HEX.get(usize::from(digit)).copied().map_or('0', char::from));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_agrees_with_rfc_4648_without_padding() {
        let cases = [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"),
        ];
        for (text, encoded) in cases {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
    }

    #[test]
    fn messages_are_percent_encoded() {
        assert_eq!(percent_encoded("100% ü\n"), "100%25 %C3%BC%0A");
    }
}
