//! Keys in logs and traces: hashed, unless the configuration allows plain keys in logs.
//!
//! Keys are addresses and names of people. Their hashes still show which lines belong to one key.

use ring::rand::{self, SystemRandom};
use tollgate::{Code, Error, Result};
use tollgate_http::HashKey;

/// The width of a hash: few collisions, short lines.
const BITS: u64 = 64;

/// Replaces keys in logs and traces.
#[derive(Clone, Debug)]
pub struct KeyRedaction {
    hash: HashKey,
    plain: bool,
}

impl KeyRedaction {
    /// Shows plain keys in logs.
    #[must_use]
    pub const fn plain_in_logs(self) -> Self {
        self.plain(true)
    }

    /// The same hashes, with or without plain keys in logs.
    #[must_use]
    pub(crate) const fn plain(mut self, plain: bool) -> Self {
        self.plain = plain;
        self
    }

    /// Whether logs have plain keys.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.plain
    }

    /// A keyed hash of 64 bits. Servers with the same secret write the same hashes; without a
    /// secret they are random per process.
    ///
    /// # Errors
    /// When there is no secret and the operating system has no randomness.
    pub fn hashed(secret: &str) -> Result<Self> {
        let hash = if secret.is_empty() {
            let none = |_| Error::new(Code::Unsupported, "the system has no randomness");
            let random = rand::generate::<[u8; 32]>(&SystemRandom::new()).map_err(none)?;
            HashKey::new(&random.expose())?
        } else {
            HashKey::from_any_secret(secret.as_bytes())?
        };
        Ok(Self { hash: hash.bits(BITS)?, plain: false })
    }

    /// The replacement of a key in logs.
    #[must_use]
    pub fn in_logs(&self, key: &str) -> String {
        if self.plain { key.to_owned() } else { self.hash.hash(key) }
    }

    /// The replacement of a key in traces, where keys are never plain.
    #[must_use]
    pub fn in_traces(&self, key: &str) -> String {
        self.hash.hash(key)
    }
}

#[cfg(test)]
mod tests {
    use super::KeyRedaction;

    #[test]
    fn hashes_distinguish_keys_and_do_not_show_them() {
        let hashed = |secret| KeyRedaction::hashed(secret).unwrap();
        let (one, other) = (hashed("secret"), hashed(""));
        assert_eq!(one.in_logs("ada"), hashed("secret").in_logs("ada"));
        assert_ne!(one.in_logs("ada"), one.in_logs("bob"));
        assert_ne!(one.in_logs("ada"), other.in_logs("ada"));
        assert_eq!(one.in_logs("ada").len(), 16);
        let plain = one.clone().plain_in_logs();
        assert_eq!(plain.in_logs("ada"), "ada");
        assert_eq!(plain.in_traces("ada"), one.in_logs("ada"));
    }
}
