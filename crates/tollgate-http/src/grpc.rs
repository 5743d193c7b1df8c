//! Problems over gRPC: a response of headers only, with the status and its details.
//!
//! The details are `google.rpc.RetryInfo`, `QuotaFailure` and `BadRequest`, written by hand: a few
//! small messages do not justify a protobuf library in every service that uses the middleware.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use crate::problem::Problem;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// How long clients with a retry policy wait; a negative number forbids a retry.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const MS_PER_S: u64 = 1_000;
const NANOS_PER_MS: u64 = 1_000_000;

impl Problem<'_> {
    /// A gRPC response of headers only; its body is empty.
    #[must_use]
    pub fn to_grpc(&self) -> Response<String> {
        let mut headers = HeaderMap::with_capacity(10);
        headers.insert(header::CONTENT_TYPE, GRPC);
        headers.insert(STATUS, HeaderValue::from(u16::from(self.grpc.number())));
        if let Ok(message) = HeaderValue::from_str(&percent_encoded(&self.detail())) {
            headers.insert(MESSAGE, message);
        }
        if let Ok(details) = HeaderValue::from_str(&base64(&self.grpc_status(&self.detail()))) {
            headers.insert(DETAILS, details);
        }
        match self.retry_after_ms {
            Some(wait_ms) => headers.insert(PUSHBACK, HeaderValue::from(wait_ms)),
            None => headers.insert(PUSHBACK, HeaderValue::from_static("-1")),
        };
        self.response(String::new(), StatusCode::OK, headers)
    }

    /// The bytes of a `google.rpc.Status` with this message: code = 1, message = 2, details = 3 of
    /// `google.protobuf.Any`.
    #[must_use]
    pub fn grpc_status(&self, text: &str) -> Vec<u8> {
        let mut message = Vec::with_capacity(192);
        push_number(&mut message, 1, u64::from(self.grpc.number()));
        push_bytes(&mut message, 2, text.as_bytes());
        if let Some(wait_ms) = self.retry_after_ms {
            push_detail(&mut message, "RetryInfo", &retry_info(wait_ms));
        }
        if !self.violated.is_empty() {
            push_detail(&mut message, "QuotaFailure", &violations(self.violated, &self.detail()));
        }
        if let Some(field) = self.field {
            push_detail(&mut message, "BadRequest", &violations(&[field], &self.detail()));
        }
        message
    }
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

/// `violations = 1` of `QuotaFailure`, each with subject = 1 (the name of a limit) and description
/// = 2; `field_violations = 1` of `BadRequest`, each with field = 1 and description = 2.
fn violations(names: &[&str], description: &str) -> Vec<u8> {
    let mut all = Vec::new();
    for name in names {
        let mut violation = Vec::new();
        push_bytes(&mut violation, 1, name.as_bytes());
        push_bytes(&mut violation, 2, description.as_bytes());
        push_bytes(&mut all, 1, &violation);
    }
    all
}

/// One of the details: type_url = 1, value = 2.
fn push_detail(message: &mut Vec<u8>, name: &str, value: &[u8]) {
    let mut any = Vec::new();
    push_bytes(&mut any, 1, format!("type.googleapis.com/google.rpc.{name}").as_bytes());
    push_bytes(&mut any, 2, value);
    push_bytes(message, 3, &any);
}

/// Zero is the default of a number and is not written.
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

/// Base64 without padding, as gRPC encodes binary headers.
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

/// gRPC accepts printable ASCII except `%` in a message; all other bytes are percent-encoded.
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
