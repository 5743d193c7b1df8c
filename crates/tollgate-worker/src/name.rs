//! The names of values, as long as a backend accepts them.

use core::fmt::Write as _;
use std::borrow::Cow;

use sha2::{Digest, Sha256};

/// A name as it is stored: unchanged, unless it is too long or contains a NUL, which SQLite would
/// end it at. No two names are stored under one: `%` followed by `00` occurs in no key, and a long
/// name is replaced by its SHA-256.
pub(crate) fn stored(name: &str, max_bytes: usize) -> Cow<'_, str> {
    if name.len() > max_bytes {
        let mut text = String::from("sha256:");
        for byte in Sha256::digest(name) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        return text.into();
    }
    if name.contains('\0') { name.replace('\0', "%00").into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::stored;

    #[test]
    fn long_names_and_those_with_a_nul_are_replaced() {
        assert_eq!(stored("tollgate:api:{ada}", 100), "tollgate:api:{ada}");
        assert_eq!(stored("tollgate:api:{a\0b}", 100), "tollgate:api:{a%00b}");
        let (one, other) = ("a".repeat(101), "b".repeat(101));
        assert_eq!(stored(&one, 100).len(), 71);
        assert_ne!(stored(&one, 100), stored(&other, 100));
    }
}
