//! A keyed 127-bit fingerprint instead of the text of a key.
//!
//! # Why two keys never share a fingerprint
//! A key is read as a vector of 64-bit words. Each of prefix, policy and subject is cut into words
//! of eight bytes; the word at its end holds the zero to seven bytes that are left and, in its top
//! byte, a marker with their number, so it is never zero. A subject of 8 to 15 bytes is read
//! faster: as its first and its last eight bytes, with a secret of its length added. Different keys
//! give different vectors, or different secrets of a length.
//!
//! The fingerprint is Σ ⌊secret_i · word_i / 2^64⌋ modulo 2^128, with uniform 192-bit secrets: the
//! upper two thirds of a multilinear hash modulo 2^192, but for the carries out of the lower third.
//! Without them, the upper 128 bits of the two sums of different vectors differ by any given number
//! with a chance of at most 2^-128 (Dietzfelbinger, 1996; Lemire and Kaser, "Strongly universal
//! string hashing is fast", 2014). Of n words, the carries move each sum by less than n. So the
//! chance that two keys share one is at most 2n · 2^-128, and twice that because one bit marks used
//! lines: below 2^-119 per pair for subjects of up to 512 bytes, whatever the keys are. For 2^24
//! keys, all pairs together: below 2^-72.
//!
//! The secrets are made once per process from the operating system's random seed, expanded with
//! SipHash, and never leave it, so colliding keys cannot be searched from outside.
//!
//! The fingerprints of neighbouring keys are an arithmetic progression, so the position in the
//! table is mixed once more: it needs to be even, not unique.

use core::cell::Cell;
use core::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use super::namespace;
use crate::key::Key;

/// Words of a subject whose secrets are kept; those of longer subjects are made when needed.
const SUBJECT_WORDS: usize = 64;
/// Words of a name: at most 64 bytes, and the word at the end.
const NAME_WORDS: usize = 9;
/// Set in every fingerprint, so that a used line is never all zeros.
const USED: u64 = 1 << 63;

thread_local! {
    /// The last short key of this thread and its fingerprint: a hot key is checked again and again.
    /// The first entry matches nothing: no short key has the length 0.
    static LAST: Cell<(Short, Id)> = const { Cell::new((([0; 2], 0, 0), Id { low: 0, high: 0 })) };
}

/// The first and last eight bytes of a subject, a scope, and the length of the subject. What most
/// likely differs between keys is first: a comparison ends there.
type Short = ([u64; 2], u128, usize);

static SECRETS: LazyLock<Secrets> = LazyLock::new(Secrets::random);

/// The secret of one word: 192 bits, least significant first.
type Secret = [u64; 3];

/// The secrets of all words. They are never printed.
pub(crate) struct Secrets {
    subject: [Secret; SUBJECT_WORDS],
    prefix: [Secret; NAME_WORDS],
    policy: [Secret; NAME_WORDS],
    /// Added for a subject of 8 to 15 bytes.
    lengths: [u128; 8],
    seed: RandomState,
}

/// What all keys of a limit share, worked out once per limit. The sum is never printed.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// The sum over the names of a key.
    sum: Sum,
    /// The number of the pair of names.
    number: usize,
}

impl Scope {
    /// The number of prefix and policy, by which a store finds their states.
    #[inline(always)]
    pub(super) const fn number(self) -> usize {
        self.number
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scope")
    }
}

/// The fingerprint of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id {
    pub(super) low: u64,
    /// Has [`USED`] set.
    pub(super) high: u64,
}

impl Secrets {
    pub(crate) fn of_process() -> &'static Self {
        &SECRETS
    }

    fn random() -> Self {
        let seed = RandomState::new();
        let names = [0, NAME_WORDS]
            .map(|from| std::array::from_fn(|word| secret(&seed, (Part::Name, from + word))));
        let [prefix, policy] = names;
        let subject = std::array::from_fn(|word| secret(&seed, (Part::Subject, word)));
        let lengths = std::array::from_fn(|length| {
            let [low, high, _] = secret(&seed, (Part::Length, length));
            u128::from(high) << 64 | u128::from(low)
        });
        Self { subject, prefix, policy, lengths, seed }
    }

    /// What all keys of a limit share.
    pub(crate) fn scope(&self, prefix: &str, policy: &str) -> Scope {
        let sum = self.sum_of_names(prefix, policy);
        Scope { sum, number: namespace::number_of(prefix, policy) }
    }

    fn sum_of_names(&self, prefix: &str, policy: &str) -> Sum {
        let sum = Sum::default();
        let sum = sum.plus_text(prefix.as_bytes(), |word| self.prefix.get(word).copied());
        sum.plus_text(policy.as_bytes(), |word| self.policy.get(word).copied())
    }

    /// The fingerprint of a subject within a scope.
    #[inline(always)]
    pub(super) fn id(&self, scope: Scope, subject: &str) -> Id {
        self.id_after(scope.sum, subject)
    }

    #[inline(always)]
    fn id_after(&self, sum: Sum, subject: &str) -> Id {
        let bytes = subject.as_bytes();
        let [first, second, ..] = &self.subject;
        let sum = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            // The usual lengths without a loop.
            (Some(head), Some(tail)) if bytes.len() < 16 => {
                let (head, tail) = (u64::from_le_bytes(*head), u64::from_le_bytes(*tail));
                let wanted = ([head, tail], sum.0, bytes.len());
                let (last, id) = LAST.get();
                if last == wanted {
                    return id;
                }
                let sum = sum.plus(head, first).plus(tail, second);
                let length = self.lengths.get(bytes.len() & 7).copied();
                let id = Sum(sum.0.wrapping_add(length.unwrap_or_default())).id();
                LAST.set((wanted, id));
                return id;
            }
            _ => self.plus_long(sum, bytes),
        };
        sum.id()
    }

    #[inline(never)]
    fn plus_long(&self, sum: Sum, bytes: &[u8]) -> Sum {
        if bytes.len() < 8 * SUBJECT_WORDS {
            return sum.plus_text(bytes, |word| self.subject.get(word).copied());
        }
        sum.plus_text(bytes, |word| {
            let kept = self.subject.get(word).copied();
            kept.or_else(|| Some(secret(&self.seed, (Part::Subject, word))))
        })
    }

    /// The fingerprint of a key.
    pub(super) fn id_of(&self, key: Key<'_>) -> Id {
        self.id_after(self.sum_of_names(key.prefix.as_str(), key.policy.as_str()), key.subject)
    }
}

/// Which words a secret is for.
#[derive(Clone, Copy, Hash)]
enum Part {
    Name,
    Length,
    Subject,
}

fn secret(seed: &RandomState, word: (Part, usize)) -> Secret {
    std::array::from_fn(|limb| seed.hash_one((word, limb)))
}

/// A sum modulo 2^128.
#[derive(Clone, Copy, Default)]
struct Sum(u128);

impl Sum {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the word as it was")]
    fn plus(self, word: u64, secret: &Secret) -> Self {
        let [low, middle, high] = *secret;
        let word = u128::from(word);
        let lower = u128::from(middle) * word + ((u128::from(low) * word) >> 64);
        let upper = u128::from(high.wrapping_mul(word as u64)) << 64;
        Self(self.0.wrapping_add(lower).wrapping_add(upper))
    }

    #[inline]
    fn plus_text(self, bytes: &[u8], secret: impl Fn(usize) -> Option<Secret>) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let last = end_word(rest);
        let words = words.iter().map(|word| u64::from_le_bytes(*word)).chain([last]);
        let with_secrets = words.zip((0..).map_while(secret));
        with_secrets.fold(self, |sum, (word, secret)| sum.plus(word, &secret))
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of 128 bits")]
    const fn id(self) -> Id {
        Id { low: self.0 as u64, high: (self.0 >> 64) as u64 | USED }
    }
}

impl Id {
    /// In a used line without a key. No key has it, but by a chance of 2^-127.
    pub(super) const VACANT: Self = Self { low: 0, high: USED };

    /// Where in a table the key lives: 64 evenly spread bits.
    ///
    /// The halves of neighbouring keys are arithmetic progressions, and so would be any sum of
    /// them; even their exclusive or shows it. Their product does not.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    pub(super) const fn spread(self) -> u64 {
        let product = self.low as u128 * self.high as u128;
        product as u64 ^ (product >> 64) as u64
    }
}

/// The bytes that fill no whole word, and how many they are.
fn end_word(rest: &[u8]) -> u64 {
    let marker = (rest.len() as u64 | 8) << 56;
    rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)) | marker
}
