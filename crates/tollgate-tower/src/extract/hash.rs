//! Keyed hashes of subjects, so that a store, its logs and its metrics learn nothing about them.

use core::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tollgate::{Error, Result};

use super::{Extract, Unkeyed};
use crate::head::Head;
use crate::subject::Subject;

/// Bytes of the hash that are kept unless told otherwise.
const WIDTH: usize = 16;
const WIDTH_MIN: usize = 8;
const WIDTH_MAX: usize = 32;
const SECRET_MIN_BYTES: usize = 16;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A secret for keyed hashing (HMAC with SHA-256). Every node of a fleet needs the same one.
#[derive(Clone)]
pub struct HashKey {
    keyed: Hmac<Sha256>,
    width: usize,
}

impl HashKey {
    /// A key from a secret of at least 16 bytes.
    ///
    /// # Errors
    /// `config_invalid` naming the field `secret` when it is too short.
    pub fn new(secret: &[u8]) -> Result<Self> {
        let accepted = format!("is too short; accepted: {SECRET_MIN_BYTES} bytes or more");
        let short = || Error::config("secret", accepted);
        let secret = Some(secret).filter(|secret| secret.len() >= SECRET_MIN_BYTES);
        let keyed = secret.and_then(|secret| Hmac::new_from_slice(secret).ok());
        Ok(Self { keyed: keyed.ok_or_else(short)?, width: WIDTH })
    }

    /// Keeps so many bytes of the hash, 16 by default. Two subjects out of n share one with a
    /// chance of about n² / 2^(8·width + 1).
    ///
    /// # Errors
    /// `config_invalid` naming the field `width` when it is not from 8 to 32.
    pub fn width(mut self, bytes: usize) -> Result<Self> {
        if !(WIDTH_MIN..=WIDTH_MAX).contains(&bytes) {
            let accepted = format!("{bytes} is out of range; accepted: {WIDTH_MIN} to {WIDTH_MAX}");
            return Err(Error::config("width", accepted));
        }
        self.width = bytes;
        Ok(self)
    }

    /// Appends the hash of a text, in hexadecimal.
    pub(super) fn push_hash(&self, text: &str, subject: &mut Subject) {
        let mut keyed = self.keyed.clone();
        keyed.update(text.as_bytes());
        for byte in keyed.finalize().into_bytes().iter().take(self.width) {
            for digit in [byte >> 4, byte & 15] {
                let digit = HEX.get(usize::from(digit)).copied().unwrap_or_default();
                subject.push(char::from(digit).encode_utf8(&mut [0; 4]));
            }
        }
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashKey").field("width", &self.width).finish_non_exhaustive()
    }
}

/// The keyed hash of a subject. Made by [`Extract::hashed`].
#[derive(Clone, Debug)]
pub struct Hashed<E> {
    inner: E,
    key: HashKey,
}

impl<E> Hashed<E> {
    pub(super) const fn new(inner: E, key: HashKey) -> Self {
        Self { inner, key }
    }
}

impl<E: Extract> Extract for Hashed<E> {
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        let mut clear = Subject::default();
        self.inner.extract(head, &mut clear)?;
        subject.push("hash=");
        self.key.push_hash(clear.as_str(), subject);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector was made by another implementation: those of RFC 4231 have keys that are too
    /// short, or data that is no text.
    #[test]
    fn hashes_are_hmac_sha256() {
        let key = HashKey::new(b"0123456789abcdef").unwrap().width(32).unwrap();
        let mut subject = Subject::default();
        key.push_hash("what do ya want for nothing?", &mut subject);
        assert_eq!(subject.as_str(), HMAC);
    }

    #[test]
    fn a_bad_secret_or_width_is_refused_and_never_shown() {
        assert_eq!(HashKey::new(b"short").unwrap_err().field(), Some("secret"));
        let key = HashKey::new(b"a secret of 22 bytes..").unwrap();
        assert!(!format!("{key:?}").contains("secret"));
        for (bytes, field) in [(7, Some("width")), (8, None), (32, None), (33, Some("width"))] {
            let error = key.clone().width(bytes).err();
            assert_eq!(error.as_ref().and_then(|error| error.field()), field);
        }
    }

    const HMAC: &str = "e9265dc1bf18d4ec36915d9e82226c7ea0fa4e7f8077f611515bd5e29ec9988c";
}
