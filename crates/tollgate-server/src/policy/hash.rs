//! Keys that never reach the store as they are: a keyed hash (HMAC-SHA-256), cut to so many bits.
//!
//! Without the secret nobody can find an address or an e-mail by trying. With n bits a policy has at
//! most 2^n keys; keys that share a hash share a budget.

use std::fmt::{self, Write};

use ring::hmac;

/// How keys of a policy are hashed.
#[derive(Clone)]
pub struct KeyHash {
    key: hmac::Key,
    bits: usize,
}

impl KeyHash {
    /// A hash of 1 to 256 bits under a secret; none for another width.
    #[must_use]
    pub fn new(secret: &[u8], bits: u64) -> Option<Self> {
        let bits = usize::try_from(bits).ok().filter(|bits| (1..=256).contains(bits))?;
        Some(Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), bits })
    }

    /// The hash of a key, as hexadecimal digits.
    pub(crate) fn of(&self, key: &str) -> String {
        let tag = hmac::sign(&self.key, key.as_bytes());
        let mut text = String::with_capacity(64);
        for (index, byte) in tag.as_ref().iter().take(self.bits.div_ceil(8)).enumerate() {
            // The last byte keeps only the bits that were asked for.
            let spare = (8 * (index + 1)).saturating_sub(self.bits);
            let _never = write!(text, "{:02x}", byte >> spare << spare);
        }
        text
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHash").field("bits", &self.bits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::KeyHash;

    #[test]
    fn so_many_bits_make_so_many_keys() {
        for bits in [1, 3, 8, 9] {
            let hash = KeyHash::new(b"secret", bits).unwrap();
            let seen: BTreeSet<String> = (0..20_000).map(|n| hash.of(&n.to_string())).collect();
            assert_eq!(seen.len(), 1 << bits);
        }
        assert!(KeyHash::new(b"s", 0).is_none() && KeyHash::new(b"s", 257).is_none());
        let [one, other] = [b"one", b"two"].map(|secret| KeyHash::new(secret, 256).unwrap());
        assert!(one.of("ada") != other.of("ada") && one.of("ada").len() == 64);
        assert!(!format!("{one:?}").contains("one"));
    }
}
