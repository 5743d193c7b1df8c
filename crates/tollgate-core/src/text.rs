//! Texts as they stand in the addresses of stores.

use core::fmt::Write as _;

/// Undoes percent-encoding: every `%` and the two hexadecimal digits behind it become a byte.
/// `None` if such digits are missing, or if the bytes are no UTF-8.
#[must_use]
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = Vec::with_capacity(text.len());
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        // A number may begin with a sign, a byte may not.
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Percent-encodes a text, as a value after the `?` of an address: [`percent_decoded`] undoes it.
#[must_use]
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_comes_back() {
        for (text, decoded) in [
            ("", ""),
            ("plain é", "plain é"),
            ("%2Fa%20b%25", "/a b%"),
            ("%c3%A9", "é"),
            ("%00", "\0"),
        ] {
            assert_eq!(percent_decoded(text).as_deref(), Some(decoded), "{text}");
            assert_eq!(percent_decoded(&percent_encoded(decoded)).as_deref(), Some(decoded));
        }
        assert_eq!(percent_encoded("/a b&c=%é"), "%2Fa%20b%26c%3D%25%C3%A9");
        for text in ["%", "a%4", "%+4", "%zz", "%é", "%FF", "%c3"] {
            assert_eq!(percent_decoded(text), None, "{text}");
        }
    }
}
