//! Receipts as callers hold them: an opaque text that proves what an admission charged.
//!
//! A receipt names every charge (policy, key, limit, units, and the mark that the core's
//! [`Receipt`] has), and when it was made. A code under a secret (HMAC-SHA-256, 128 bits, compared
//! in constant time) authenticates all of it, so that a server which shares the secret accepts it
//! and no client can make one. The code also identifies the receipt: what uses the receipt is an
//! admission under a request id of that name, and the records of request ids make it happen once.
//!
//! The text contains the key and hides nothing: it is for the caller that sent the key.

mod keys;
mod wire;

use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tollgate_core::{Cost, Error, Receipt, RequestId, Result};

pub(crate) use keys::ReceiptKeys;

/// The shortest secret that is accepted, in bytes: shorter ones can be guessed.
const SECRET_MIN_BYTES: usize = 16;
/// By how much the clock that made a receipt may be ahead of the one that reads it.
const AHEAD_MAX_S: u64 = 60;
/// Longer texts are no receipts: one of 16 charges on the longest keys is shorter.
const TEXT_MAX_BYTES: usize = 16 * 1024;
/// The length of the code.
const CODE_BYTES: usize = 16;
/// Separates the use of a secret for receipts from its use for other hashes.
const DOMAIN: &[u8] = b"tollgate receipt";

/// The key that authenticates receipts.
#[derive(Clone)]
pub struct ReceiptKey(Hmac<Sha256>);

/// Accepts a setting of the secret: none, or one that cannot be guessed.
///
/// # Errors
/// `config_invalid` naming `receipt_secret`.
pub fn validate_secret(secret: &str) -> Result<()> {
    if secret.is_empty() || secret.len() >= SECRET_MIN_BYTES {
        return Ok(());
    }
    let accepted = format!("can be guessed; accepted: {SECRET_MIN_BYTES} bytes and more");
    Err(Error::config("receipt_secret", accepted))
}

/// What a receipt says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceiptContent {
    /// When the charge was made, in seconds since the epoch.
    pub(crate) charged_at_s: u64,
    /// How long it is accepted after the charge, in seconds: as long as a request id of it is kept.
    pub(crate) valid_for_s: u64,
    /// Tells receipts of equal charges apart.
    pub(crate) nonce: u64,
    pub(crate) subjects: Vec<ChargedSubject>,
}

/// The charges of one key under one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChargedSubject {
    pub(crate) policy: String,
    pub(crate) key: String,
    pub(crate) limits: Vec<ChargedLimit>,
}

/// The charge of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChargedLimit {
    /// The name of the limit within its policy.
    pub(crate) name: String,
    pub(crate) units: Cost,
    /// The `reset_at_ms` of the charge.
    pub(crate) until_ms: u64,
}

impl ReceiptContent {
    /// The charges, in the order in which they were made, each with its policy.
    pub(crate) fn charges(&self) -> impl Iterator<Item = (&str, &ChargedLimit)> {
        self.subjects.iter().flat_map(|of| of.limits.iter().map(|limit| (&*of.policy, limit)))
    }
}

impl ChargedLimit {
    /// What names the charge to the core.
    pub(crate) const fn mark(&self) -> Receipt {
        Receipt::Until(self.until_ms.saturating_mul(1_000))
    }
}

/// A receipt that was accepted.
#[derive(Debug)]
pub(crate) struct OpenedReceipt {
    pub(crate) content: ReceiptContent,
    /// The request id under which the receipt is used.
    pub(crate) request_id: String,
}

impl ReceiptKey {
    /// The key of `receipt_secret`, or else of `hash_secret`; `None` when neither has 16 bytes.
    #[must_use]
    pub fn of_secrets(receipt_secret: &str, hash_secret: &str) -> Option<Self> {
        let secrets = [receipt_secret, hash_secret];
        let secret = secrets.into_iter().find(|secret| secret.len() >= SECRET_MIN_BYTES)?;
        Self::of_bytes(secret.as_bytes())
    }

    /// A key that no other process has; `None` where the standard library has no randomness.
    #[must_use]
    pub fn random() -> Option<Self> {
        use std::hash::{BuildHasher as _, RandomState};
        if cfg!(target_arch = "wasm32") {
            return None;
        }
        // The keys of a `RandomState` come from the operating system; their hashes do not reveal
        // them.
        let state = RandomState::new();
        let words = (0..4_u64).flat_map(|word| state.hash_one(word).to_be_bytes());
        Self::of_bytes(&words.collect::<Vec<u8>>())
    }

    fn of_bytes(secret: &[u8]) -> Option<Self> {
        let own = Hmac::<Sha256>::new_from_slice(secret).ok()?.chain_update(DOMAIN);
        Hmac::new_from_slice(&own.finalize().into_bytes()).ok().map(Self)
    }

    /// A number that a request id has on every server with this key, to be a nonce.
    pub(crate) fn nonce_of(&self, request_id: &str) -> u64 {
        let hash = self.0.clone().chain_update(b"id").chain_update(request_id).finalize();
        hash.into_bytes().iter().take(8).fold(0, |nonce, byte| nonce << 8 | u64::from(*byte))
    }

    /// The text of a receipt.
    pub(crate) fn seal(&self, content: &ReceiptContent) -> String {
        self.seal_bytes(content.to_bytes())
    }

    /// The text of a receipt with these bytes as its content, whatever they are: for tests of what
    /// reads receipts.
    #[must_use]
    pub fn seal_bytes(&self, mut bytes: Vec<u8>) -> String {
        let code = self.0.clone().chain_update(&bytes).finalize().into_bytes();
        bytes.extend(code.iter().take(CODE_BYTES));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a receipt at an instant.
    ///
    /// # Errors
    /// `invalid_request` naming `receipt` when this key has not made it, or it is too old.
    pub(crate) fn open(&self, text: &str, now_s: u64) -> Result<OpenedReceipt> {
        let opened = self.authenticated(text).ok_or_else(|| {
            let accepted = "accepted: that of an allowed answer, unchanged, of a server with the \
                            same receipt_secret";
            Error::invalid("receipt", format!("is not a receipt of this service; {accepted}"))
        })?;
        let ReceiptContent { charged_at_s, valid_for_s, .. } = opened.content;
        // Its record is kept for longer than this: what was used is still known.
        if charged_at_s.saturating_add(valid_for_s) < now_s {
            let message = format!(
                "has expired; accepted: for {valid_for_s} s after its charge, as long as request \
                 ids are kept"
            );
            return Err(Error::invalid("receipt", message));
        }
        if charged_at_s > now_s.saturating_add(AHEAD_MAX_S) {
            let message = format!(
                "comes from a clock that is too far ahead of this one; accepted: up to \
                 {AHEAD_MAX_S} s"
            );
            return Err(Error::invalid("receipt", message));
        }
        Ok(opened)
    }

    fn authenticated(&self, text: &str) -> Option<OpenedReceipt> {
        if text.len() > TEXT_MAX_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (content, code) = bytes.split_last_chunk::<CODE_BYTES>()?;
        self.0.clone().chain_update(content).verify_truncated_left(code).ok()?;
        let request_id = format!("receipt.{}", URL_SAFE_NO_PAD.encode(code));
        Some(OpenedReceipt { content: ReceiptContent::from_bytes(content)?, request_id })
    }
}

impl OpenedReceipt {
    /// The request id of its use.
    ///
    /// The record is kept for more than twice as long as the receipt is accepted: so it is still
    /// there when the last server accepts the receipt, even if clocks disagree by minutes.
    pub(crate) fn once(&self) -> Result<RequestId<'_>> {
        let keep_s = self.content.valid_for_s.saturating_add(AHEAD_MAX_S).saturating_mul(2);
        let keep = core::time::Duration::from_secs(keep_s);
        Ok(RequestId::new(&self.request_id)?.keep_for(keep))
    }
}

/// Without the secret.
impl fmt::Debug for ReceiptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiptKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: u64 = 1_800_000_000;
    const VALID_FOR_S: u64 = 300;

    fn key(secret: &str) -> ReceiptKey {
        ReceiptKey::of_secrets(secret, "").unwrap()
    }

    fn content() -> ReceiptContent {
        let limit = |name: &str, units, until_ms| ChargedLimit {
            name: name.to_owned(),
            units: Cost::new(units).unwrap(),
            until_ms,
        };
        let subject = |policy: &str, key: &str, limits| ChargedSubject {
            policy: policy.to_owned(),
            key: key.to_owned(),
            limits,
        };
        let first = vec![limit("second", 1, 7), limit("day", u64::from(u32::MAX), u64::MAX)];
        let subjects =
            vec![subject("api", "user:é", first), subject("ip", "k", vec![limit("ip", 5, 0)])];
        ReceiptContent { charged_at_s: NOW_S, valid_for_s: VALID_FOR_S, nonce: u64::MAX, subjects }
    }

    #[test]
    fn a_receipt_reads_back_as_it_was_sealed() {
        let key = key("0123456789abcdef");
        let text = key.seal(&content());
        let opened = key.open(&text, NOW_S).unwrap();
        assert_eq!(opened.content, content());
        assert!(opened.once().is_ok() && opened.request_id.len() <= 64);
        let other = key.seal(&ReceiptContent { nonce: 1, ..content() });
        assert_ne!(key.open(&other, NOW_S).unwrap().request_id, opened.request_id);
    }

    #[test]
    fn nothing_but_a_whole_and_unchanged_receipt_is_accepted() {
        let key = key("0123456789abcdef");
        let text = key.seal(&content());
        let refused = |text: &str| {
            let error = key.open(text, NOW_S).unwrap_err();
            assert_eq!(
                (error.code().as_str(), error.field()),
                ("invalid_request", Some("receipt"))
            );
        };
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            refused(&URL_SAFE_NO_PAD.encode(&flipped));
        }
        for bit in 0..text.len() * 8 {
            let mut flipped = text.clone().into_bytes();
            flipped[bit / 8] ^= 1 << (bit % 8);
            refused(&String::from_utf8_lossy(&flipped));
        }
        for cut in 0..text.len() {
            refused(&text[..cut]);
            refused(&text[cut + 1..]);
        }
        refused(&format!("{text}="));
        refused(&format!("{text}A"));
        refused(&"A".repeat(1 << 20));
    }

    #[test]
    fn a_receipt_of_another_secret_is_refused() {
        let text = key("0123456789abcdef").seal(&content());
        for other in [key("0123456789abcdeg"), ReceiptKey::random().unwrap()] {
            assert!(other.open(&text, NOW_S).is_err());
        }
        let from_hashes = ReceiptKey::of_secrets("", "0123456789abcdef").unwrap();
        assert!(from_hashes.open(&text, NOW_S).is_ok(), "hash_secret serves when there is none");
        assert!(ReceiptKey::of_secrets("short", "short too").is_none());
    }

    #[test]
    fn a_receipt_is_accepted_for_as_long_as_ids_are_kept() {
        let key = key("0123456789abcdef");
        let text = key.seal(&content());
        let accepted = |now_s| key.open(&text, now_s).is_ok();
        assert!(accepted(NOW_S + VALID_FOR_S) && !accepted(NOW_S + VALID_FOR_S + 1));
        assert!(accepted(NOW_S - AHEAD_MAX_S) && !accepted(NOW_S - AHEAD_MAX_S - 1));
        let opened = key.open(&text, NOW_S).unwrap();
        let kept_s = opened.once().unwrap().keep / 1_000_000;
        assert!(kept_s >= VALID_FOR_S + 2 * AHEAD_MAX_S, "the record outlives the receipt");
    }

    #[test]
    fn no_secret_is_shown() {
        assert!(!format!("{:?}", key("0123456789abcdef")).contains("0123"));
    }
}
