//! How keys appear in logs and traces: as a hash, unless somebody wants to read them in logs.
//!
//! Keys are addresses and names of people. A hash still tells which lines are about the same key.

use ring::rand::{self, SystemRandom};
use tollgate::{Code, Error, Result};

use crate::policy::KeyHash;

/// Enough to tell keys apart, short enough for a line.
const BITS: u64 = 64;

/// What stands for a key in logs and traces.
#[derive(Clone, Debug)]
pub struct KeyNames {
    hash: Option<KeyHash>,
    plain: bool,
}

impl KeyNames {
    /// Nothing at all of keys.
    #[must_use]
    pub const fn hidden() -> Self {
        Self { hash: None, plain: false }
    }

    /// The same, but logs have keys as they are.
    #[must_use]
    pub const fn plain_in_logs(mut self) -> Self {
        self.plain = true;
        self
    }

    /// A keyed hash of 64 bits. Servers that share a secret write the same; with an empty one the hash
    /// is made for this process, and means nothing elsewhere.
    ///
    /// # Errors
    /// When a secret is needed and the operating system has no randomness.
    pub fn hashed(secret: &str) -> Result<Self> {
        let hash = if secret.is_empty() {
            let random = rand::generate::<[u8; 32]>(&SystemRandom::new());
            let none = |_| Error::new(Code::Unsupported, "the system has no randomness");
            KeyHash::new(&random.map_err(none)?.expose(), BITS)
        } else {
            KeyHash::new(secret.as_bytes(), BITS)
        };
        Ok(Self { hash, plain: false })
    }

    /// What stands for this key in logs.
    #[must_use]
    pub fn of(&self, key: &str) -> String {
        if self.plain { key.to_owned() } else { self.hash_of(key) }
    }

    /// What stands for this key where it never appears as it is.
    #[must_use]
    pub fn hash_of(&self, key: &str) -> String {
        self.hash.as_ref().map_or_else(|| "***".to_owned(), |hash| hash.of(key))
    }
}

#[cfg(test)]
mod tests {
    use super::KeyNames;

    #[test]
    fn a_hash_tells_keys_apart_and_not_which_they_are() {
        let (one, other) = (KeyNames::hashed("secret").unwrap(), KeyNames::hashed("").unwrap());
        assert_eq!(one.of("ada"), KeyNames::hashed("secret").unwrap().of("ada"));
        assert!(one.of("ada") != one.of("bob") && one.of("ada") != other.of("ada"));
        assert_eq!(one.of("ada").len(), 16);
        let plain = one.clone().plain_in_logs();
        assert_eq!((plain.of("ada"), plain.hash_of("ada")), ("ada".to_owned(), one.of("ada")));
        assert_eq!(KeyNames::hidden().of("ada"), "***");
    }
}
