//! Texts as they stand in the addresses of stores.

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
        }
        for text in ["%", "a%4", "%+4", "%zz", "%é", "%FF", "%c3"] {
            assert_eq!(percent_decoded(text), None, "{text}");
        }
    }
}
