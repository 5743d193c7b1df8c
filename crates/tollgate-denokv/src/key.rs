//! Keys of Deno KV: one part, a string. `kv.get(["tollgate:policy:{subject}"])` reads such a key.

use tollgate_core::{Error, Result};

/// The longest encoded key that can be written.
const KEY_MAX_BYTES: usize = 2_048;
const STRING: u8 = 0x02;
const END: u8 = 0x00;
const ESCAPE: u8 = 0xff;

/// The bytes of a key whose only part is a string.
///
/// # Errors
/// `invalid_request` when it is too long.
pub(crate) fn encode(text: &str) -> Result<Vec<u8>> {
    let mut key = Vec::with_capacity(text.len() + 2);
    key.push(STRING);
    for byte in text.bytes() {
        key.push(byte);
        if byte == END {
            key.push(ESCAPE);
        }
    }
    key.push(END);
    if key.len() > KEY_MAX_BYTES {
        let message = format!(
            "has {} bytes with prefix, policy and request id; accepted: up to {KEY_MAX_BYTES}",
            key.len()
        );
        return Err(Error::invalid("key", message).not_sent());
    }
    Ok(key)
}

/// The next key in order: a range that ends before it contains `key` alone.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_encoded() {
        assert_eq!(encode("ab").unwrap(), [2, b'a', b'b', 0]);
        assert_eq!(encode("a\0b").unwrap(), [2, b'a', 0, 0xff, b'b', 0]);
        assert_eq!(after(&[2, 0]), [2, 0, 0]);
    }

    #[test]
    fn a_key_that_is_too_long_is_refused() {
        assert!(encode(&"x".repeat(2_046)).is_ok());
        let error = encode(&"x".repeat(2_047)).unwrap_err();
        assert_eq!((error.field(), error.is_not_sent()), (Some("key"), true), "{error}");
    }
}
