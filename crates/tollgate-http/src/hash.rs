//! Keyed hashes of subjects (HMAC-SHA-256), so that a store, its logs and its metrics hold no
//! address, name or API key.
//!
//! Without the secret, a subject cannot be found by hashing guesses. The number of bits bounds the
//! number of distinct hashes: n bits give at most 2^n, and subjects with the same hash share a
//! budget.

use core::fmt::{self, Write};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tollgate_core::{Error, Result};

const DEFAULT_BITS: usize = 128;
const BITS_MAX: u64 = 256;
const SECRET_MIN_BYTES: usize = 16;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A secret for keyed hashes, and the number of bits that each hash keeps. All processes that share
/// a store need the same secret.
///
/// ```
/// use tollgate_http::HashKey;
///
/// let key = HashKey::new(b"at least sixteen bytes")?.bits(64)?;
/// assert_eq!(key.hash("192.0.2.1").len(), 16);
/// assert_ne!(key.hash("192.0.2.1"), key.hash("192.0.2.2"));
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Clone)]
pub struct HashKey {
    mac: Hmac<Sha256>,
    bits: usize,
}

impl HashKey {
    /// Hashes of 128 bits under a secret of at least 16 bytes.
    ///
    /// # Errors
    /// `config_invalid` with the field `secret` when the secret is too short.
    pub fn new(secret: &[u8]) -> Result<Self> {
        if secret.len() < SECRET_MIN_BYTES {
            let accepted = format!("is too short; accepted: {SECRET_MIN_BYTES} bytes or more");
            return Err(Error::config("secret", accepted));
        }
        Self::from_any_secret(secret)
    }

    /// Hashes of 128 bits under a secret of any length. A short secret can be guessed, and with it
    /// the subjects: prefer [`HashKey::new`].
    ///
    /// # Errors
    /// `config_invalid` with the field `secret` when HMAC refuses the secret; it accepts all
    /// lengths.
    pub fn from_any_secret(secret: &[u8]) -> Result<Self> {
        let mac = Hmac::new_from_slice(secret);
        let mac = mac.map_err(|_| Error::config("secret", "is no key for HMAC"))?;
        Ok(Self { mac, bits: DEFAULT_BITS })
    }

    /// Keeps this many leading bits of each hash. With b bits, any two of n subjects share a hash
    /// with a probability of about n² / 2^(b + 1).
    ///
    /// # Errors
    /// `config_invalid` with the field `bits` when the number is not from 1 to 256.
    pub fn bits(mut self, bits: u64) -> Result<Self> {
        let accepted = usize::try_from(bits).ok().filter(|_| (1..=BITS_MAX).contains(&bits));
        self.bits = accepted.ok_or_else(|| {
            Error::config("bits", format!("{bits} is out of range; accepted: 1 to {BITS_MAX}"))
        })?;
        Ok(self)
    }

    /// How many bits each hash keeps.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.bits
    }

    /// The hash of a text, in hexadecimal digits.
    #[must_use]
    pub fn hash(&self, text: &str) -> String {
        let mut hash = String::with_capacity(self.bits.div_ceil(8) * 2);
        self.write_hash(text, &mut hash);
        hash
    }

    /// Appends the hash of a text, in hexadecimal digits. Does not allocate.
    pub fn write_hash(&self, text: &str, out: &mut impl Write) {
        let mut mac = self.mac.clone();
        mac.update(text.as_bytes());
        let tag = mac.finalize().into_bytes();
        for (index, byte) in tag.iter().take(self.bits.div_ceil(8)).enumerate() {
            // The last byte keeps only the bits that belong to the hash.
            let spare = (8 * (index + 1)).saturating_sub(self.bits);
            let byte = byte >> spare << spare;
            for digit in [byte >> 4, byte & 15] {
                let digit = HEX.get(usize::from(digit)).copied().unwrap_or_default();
                // The buffers in use grow: writing does not fail.
                let _ = out.write_char(char::from(digit));
            }
        }
    }
}

/// Without the secret.
impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashKey").field("bits", &self.bits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The vector was made by another implementation: those of RFC 4231 have keys that are too
    /// short, or data that is no text.
    #[test]
    fn hashes_are_hmac_sha256() {
        let key = HashKey::new(b"0123456789abcdef").unwrap().bits(256).unwrap();
        let all = "e9265dc1bf18d4ec36915d9e82226c7ea0fa4e7f8077f611515bd5e29ec9988c";
        assert_eq!(key.hash("what do ya want for nothing?"), all);
        let default = HashKey::new(b"0123456789abcdef").unwrap();
        assert_eq!(default.hash("what do ya want for nothing?"), all[..32], "128 bits");
        let cut = default.bits(10).unwrap();
        assert_eq!(cut.hash("what do ya want for nothing?"), "e900", "0x26 cut to its two bits");
    }

    #[test]
    fn the_number_of_bits_bounds_the_number_of_hashes() {
        for bits in [1, 3, 8, 9] {
            let key = HashKey::from_any_secret(b"secret").unwrap().bits(bits).unwrap();
            let seen: BTreeSet<String> = (0..20_000).map(|n| key.hash(&n.to_string())).collect();
            assert_eq!(seen.len(), 1 << bits);
        }
        let key = |secret| HashKey::from_any_secret(secret).unwrap().bits(256).unwrap();
        let (one, other) = (key(b"one"), key(b"two"));
        assert!(one.hash("ada") != other.hash("ada") && one.hash("ada").len() == 64);
    }

    #[test]
    fn a_bad_secret_or_width_is_refused_and_never_shown() {
        assert_eq!(HashKey::new(b"short").unwrap_err().field(), Some("secret"));
        let key = HashKey::new(b"a secret of 22 bytes..").unwrap();
        assert!(!format!("{key:?}").contains("secret"));
        for (bits, field) in [(0, Some("bits")), (1, None), (256, None), (257, Some("bits"))] {
            let error = key.clone().bits(bits).err();
            assert_eq!(error.as_ref().and_then(|error| error.field()), field);
        }
    }
}
