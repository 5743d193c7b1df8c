//! A keyed 127-bit fingerprint instead of the text of a key.
//!
//! # Why two keys never meet
//! A key is read as a vector of 64-bit words: prefix, policy and subject, each cut into words with
//! the last one zero-padded, each followed by its length. Different keys give different vectors.
//! The fingerprint is the inner product of that vector with secret numbers, drawn uniformly from
//! the field of p = 2^127 − 1 elements (Carter and Wegman, 1979). For two different keys some word
//! differs by a non-zero d with |d| < p, and exactly one value of that word's secret makes the
//! products collide: the chance is 1/p < 2^-126 per pair, whatever the keys are. A subject longer
//! than 512 bytes is folded in chunks of 64 words by one more secret r: a chunk adds one to the
//! degree of a polynomial in r, so the chance is at most (chunks + 1)/p. For a table of 2^24 keys,
//! all pairs together: below 2^-78. The secrets are made once per process by the operating
//! system's random seed, expanded with SipHash, and never leave it, so nobody can search for
//! colliding keys from outside.
//!
//! The inner product of neighbouring keys is an arithmetic progression, so the position in the
//! table is mixed once more: it needs to be even, not unique.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use crate::key::Key;

/// Words of a subject that are hashed without folding.
const CHUNK_WORDS: usize = 64;
/// Words of a name: at most 64 bytes, and the length.
const NAME_WORDS: usize = 9;
const P: u128 = (1 << 127) - 1;
const MASK_63: u128 = (1 << 63) - 1;
/// Set in every fingerprint, so that a used line is never all zeros.
const USED: u64 = 1 << 63;

static SECRETS: LazyLock<Secrets> = LazyLock::new(Secrets::random);

/// The secret numbers, uniform modulo p.
#[derive(Debug)]
pub(crate) struct Secrets {
    prefix: [u128; NAME_WORDS],
    policy: [u128; NAME_WORDS],
    subject: [u128; CHUNK_WORDS],
    subject_len: u128,
    fold: u128,
}

/// The sum over the names of a key, worked out once per limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope(u128);

/// The fingerprint of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) low: u64,
    /// The upper 63 bits, under [`USED`].
    pub(super) high: u64,
}

impl Secrets {
    pub(crate) fn of_process() -> &'static Self {
        &SECRETS
    }

    #[expect(clippy::disallowed_types, reason = "the random seed of the operating system, by name")]
    fn random() -> Self {
        let seed = RandomState::new();
        let mut counter = 0_u64;
        let mut next = || loop {
            counter += 2;
            let [high, low] = [seed.hash_one(counter - 1), seed.hash_one(counter)];
            let candidate = (u128::from(high) << 64 | u128::from(low)) >> 1;
            if candidate < P {
                break candidate;
            }
        };
        Self {
            prefix: std::array::from_fn(|_| next()),
            policy: std::array::from_fn(|_| next()),
            subject: std::array::from_fn(|_| next()),
            subject_len: next(),
            fold: next(),
        }
    }

    /// The part of the fingerprint that all keys of a limit share.
    pub(crate) fn scope(&self, prefix: &str, policy: &str) -> Scope {
        Scope(add(name(&self.prefix, prefix), name(&self.policy, policy)))
    }

    /// The fingerprint of a subject within a scope.
    #[inline]
    pub(super) fn id(&self, scope: Scope, subject: &str) -> Id {
        let bytes = subject.as_bytes();
        let mut sum = add(scope.0, multiply(bytes.len() as u64, self.subject_len));
        if bytes.len() <= 8 * CHUNK_WORDS {
            sum = add_words(sum, bytes, &self.subject);
        } else {
            let fold = |folded, chunk: &[u8]| {
                add_words(multiply_wide(folded, self.fold), chunk, &self.subject)
            };
            sum = add(sum, bytes.chunks(8 * CHUNK_WORDS).fold(0, fold));
        }
        Id::from_sum(canonical(sum))
    }

    /// The fingerprint of a key.
    pub(super) fn id_of(&self, key: Key<'_>) -> Id {
        self.id(self.scope(key.prefix.as_str(), key.policy.as_str()), key.subject)
    }
}

impl Id {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of 127 bits")]
    const fn from_sum(sum: u128) -> Self {
        Self { low: sum as u64, high: (sum >> 64) as u64 | USED }
    }

    /// Where in a table the key lives: 64 evenly spread bits.
    #[inline]
    pub(super) const fn spread(self) -> u64 {
        let product = (self.low ^ 0x2D35_8DCC_AA6C_78A5) as u128
            * (self.high ^ 0x8BB8_4B93_962E_ACC9) as u128;
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (low, high) = (product as u64, (product >> 64) as u64);
        low ^ high
    }
}

fn name(secrets: &[u128; NAME_WORDS], text: &str) -> u128 {
    let (len, words) = secrets.split_first().map_or((0, &[][..]), |(len, words)| (*len, words));
    add_words(multiply(text.len() as u64, len), text.as_bytes(), words)
}

/// sum + Σ word_i · secret_i.
#[inline]
fn add_words(sum: u128, bytes: &[u8], secrets: &[u128]) -> u128 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut secrets = secrets.iter();
    let sum = words
        .iter()
        .zip(&mut secrets)
        .fold(sum, |sum, (word, secret)| add(sum, multiply(u64::from_le_bytes(*word), *secret)));
    match secrets.next() {
        Some(secret) if !rest.is_empty() => add(sum, multiply(last_word(rest), *secret)),
        _ => sum,
    }
}

/// Up to seven bytes, zero-padded.
#[inline]
fn last_word(rest: &[u8]) -> u64 {
    // Two overlapping reads instead of a copy of unknown length.
    if let (Some(head), Some(tail)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        let shift = 8 * (rest.len() - 4);
        return u64::from(u32::from_le_bytes(*head))
            | u64::from(u32::from_le_bytes(*tail)) << shift;
    }
    rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// word · secret modulo p, below 2^127 + 1.
#[inline]
const fn multiply(word: u64, secret: u128) -> u128 {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    let low = word as u128 * (secret as u64) as u128;
    let high = word as u128 * (secret >> 64);
    // low + high·2^64, with 2^127 ≡ 1. The four terms sum to less than 2^128.
    let sum = (low & P) + (low >> 127) + (high >> 63) + ((high & MASK_63) << 64);
    (sum & P) + (sum >> 127)
}

/// a · b modulo p for any a below 2^128.
fn multiply_wide(a: u128, b: u128) -> u128 {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of 128 bits")]
    let (low, high) = (a as u64, (a >> 64) as u64);
    // The upper half is multiplied by 2^64 modulo p, a word at a time.
    let shifted = multiply(1 << 32, canonical(multiply(1 << 32, canonical(multiply(high, b)))));
    add(multiply(low, b), shifted)
}

/// a + b modulo p, for a and b up to 2^127; again up to 2^127.
#[inline]
const fn add(a: u128, b: u128) -> u128 {
    // Both at 2^127 would wrap; that needs two secrets at one exact value each.
    let sum = a.wrapping_add(b);
    (sum & P) + (sum >> 127)
}

const fn canonical(sum: u128) -> u128 {
    let sum = (sum & P) + (sum >> 127);
    if sum >= P { sum - P } else { sum }
}
