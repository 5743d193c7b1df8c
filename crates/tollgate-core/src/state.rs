//! The state of a key: the id of the quota it was made under, and a few integers.
//!
//! The quota id is stored with the state, so that a changed quota is seen and carried over, never
//! misread. Every distributed store keeps the same text: one JSON array of integers, the four
//! numbers of the quota id first, and behind the words one such array for each other quota that the
//! key is still counted under. The memory store keeps the words as they are.

use core::fmt::Write as _;
use core::ops::Deref;

use crate::error::{Code, Error, Result};

/// Identifies a quota: the tag of the algorithm and up to three of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuotaId(pub [u64; 4]);

impl QuotaId {
    /// The tag of the algorithm: built-in ones are below 2^16, user-defined ones above 2^52.
    #[must_use]
    pub const fn tag(self) -> u64 {
        self.0[0]
    }
}

/// How many words a state may have before it needs an allocation.
const INLINE: usize = 4;

/// A short list of integers; four fit without an allocation.
#[derive(Clone, Debug)]
pub struct Words(Repr);

#[derive(Clone, Debug)]
enum Repr {
    Inline { len: u8, words: [u64; INLINE] },
    Spilled(Box<[u64]>),
}

impl Words {
    /// Copies the words.
    #[must_use]
    #[inline]
    pub fn new(from: &[u64]) -> Self {
        let mut words = [0; INLINE];
        match (words.get_mut(..from.len()), u8::try_from(from.len())) {
            (Some(head), Ok(len)) => {
                head.copy_from_slice(from);
                Self(Repr::Inline { len, words })
            }
            _ => Self(Repr::Spilled(from.into())),
        }
    }
}

impl From<Vec<u64>> for Words {
    fn from(words: Vec<u64>) -> Self {
        if words.len() <= INLINE { Self::new(&words) } else { Self(Repr::Spilled(words.into())) }
    }
}

impl Deref for Words {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        match &self.0 {
            Repr::Inline { len, words } => words.get(..usize::from(*len)).unwrap_or_default(),
            Repr::Spilled(words) => words,
        }
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Words {}

/// The words of a key under one quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaState {
    /// The quota the words were made under.
    pub quota_id: QuotaId,
    /// The algorithm's own integers.
    pub words: Words,
}

/// The state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The quota the words were made under.
    pub quota_id: QuotaId,
    /// The algorithm's own integers.
    pub words: Words,
    /// The same charges under quotas that the key had before and that still count them. Empty
    /// unless a quota has changed.
    pub others: Vec<QuotaState>,
}

impl State {
    /// A state under one quota.
    #[must_use]
    pub fn new(quota_id: QuotaId, words: Words) -> Self {
        Self { quota_id, words, others: Vec::new() }
    }

    /// The text that every distributed store keeps: `[tag,a,b,c,word,…]`, with one more such list
    /// at its end for each other quota.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(16 * self.numbers());
        text.push('[');
        push_numbers(&mut text, self.quota_id, &self.words);
        for other in &self.others {
            text.push_str(",[");
            push_numbers(&mut text, other.quota_id, &other.words);
            text.push(']');
        }
        text.push(']');
        text
    }

    /// Reads the text back. Only what [`State::to_text`] writes is accepted.
    ///
    /// # Errors
    /// `corrupt_state` when the text is anything else.
    pub fn from_text(text: &str) -> Result<Self> {
        Self::parse(text).ok_or_else(|| {
            Error::new(Code::CorruptState, "a stored state is not a list of integers")
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        let mut parts = inner.split(",[");
        let QuotaState { quota_id, words } = numbers_of(parts.next()?)?;
        let other = |part: &str| numbers_of(part.strip_suffix(']')?);
        Some(Self { quota_id, words, others: parts.map(other).collect::<Option<_>>()? })
    }

    /// How many integers the state has.
    pub(crate) fn numbers(&self) -> usize {
        let others = self.others.iter().map(|other| other.words.len());
        others.fold(QUOTA_ID + self.words.len(), |sum, words| sum + QUOTA_ID + words)
    }

    /// All integers in one list, for stores without a text; the lengths of the parts among them.
    pub(crate) fn to_numbers(&self) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(self.numbers() + 1 + self.others.len());
        let others = self.others.iter().map(|other| (other.quota_id, &other.words));
        for (quota_id, words) in core::iter::once((self.quota_id, &self.words)).chain(others) {
            numbers.extend(quota_id.0);
            numbers.push(words.len() as u64);
            numbers.extend(words.iter());
        }
        numbers
    }

    /// The state of [`State::to_numbers`].
    pub(crate) fn from_numbers(mut numbers: &[u64]) -> Option<Self> {
        let mut parts = Vec::new();
        while let Some((head, rest)) = numbers.split_first_chunk::<{ QUOTA_ID + 1 }>() {
            let [tag, a, b, c, len] = *head;
            let (words, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            parts.push(QuotaState { quota_id: QuotaId([tag, a, b, c]), words: Words::new(words) });
            numbers = rest;
        }
        let mut parts = parts.into_iter().filter(|_| numbers.is_empty());
        let QuotaState { quota_id, words } = parts.next()?;
        Some(Self { quota_id, words, others: parts.collect() })
    }
}

/// The numbers of a quota id.
const QUOTA_ID: usize = 4;

fn push_numbers(text: &mut String, quota_id: QuotaId, words: &[u64]) {
    for (index, word) in quota_id.0.iter().chain(words).enumerate() {
        if index > 0 {
            text.push(',');
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "{word}");
    }
}

/// The words of a list without its brackets.
fn numbers_of(list: &str) -> Option<QuotaState> {
    let numbers: Vec<u64> = list.split(',').map(canonical_integer).collect::<Option<_>>()?;
    let (quota_id, words) = numbers.split_first_chunk::<QUOTA_ID>()?;
    Some(QuotaState { quota_id: QuotaId(*quota_id), words: Words::new(words) })
}

/// Digits only, without a sign or leading zeros: one text for one number.
fn canonical_integer(digits: &str) -> Option<u64> {
    let canonical = match digits.as_bytes() {
        [] => false,
        [b'0'] => true,
        [first, rest @ ..] => (b'1'..=b'9').contains(first) && rest.iter().all(u8::is_ascii_digit),
    };
    if canonical { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> State {
        let other = |tag, words: &[u64]| QuotaState {
            quota_id: QuotaId([tag, 0, u64::MAX, 1]),
            words: Words::new(words),
        };
        let mut state = State::new(QuotaId([1, 2, 3, 4]), Words::new(&[5, 6]));
        state.others = vec![other(7, &[8]), other(9, &[]), other(1, &[1, 2, 3, 4, 5])];
        state
    }

    #[test]
    fn a_state_reads_back_as_it_was_written() {
        for state in [State::new(QuotaId([0; 4]), Words::new(&[])), sample()] {
            assert_eq!(State::from_text(&state.to_text()).unwrap(), state);
            assert_eq!(State::from_numbers(&state.to_numbers()), Some(state));
        }
        let text = "[1,2,3,4,5,6,[7,0,18446744073709551615,1,8],[9,0,18446744073709551615,1],\
                    [1,0,18446744073709551615,1,1,2,3,4,5]]";
        assert_eq!(sample().to_text(), text);
    }

    #[test]
    fn no_other_text_is_a_state() {
        let text = sample().to_text();
        for cut in 1..text.len() {
            assert!(State::from_text(&text[..cut]).is_err(), "{}", &text[..cut]);
        }
        for odd in [
            "[1,2,3]",
            "[1,2,3,4,[1,2,3]]",
            "[1,2,3,4,[1,2,3,4,[1,2,3,4]]]",
            "[[1,2,3,4]]",
            "[1,2,3,4],[1,2,3,4]",
            "[1,2,3,4,[1,2,3,4],5]",
            "[1,2,3,4,[1,2,3,4]",
            "[1,2,3,4,[1,2,3,04]]",
            "[1,2,3,4, [1,2,3,4]]",
            "[1,2,3,4,[]]",
        ] {
            assert!(State::from_text(odd).is_err(), "{odd}");
        }
        assert_eq!(State::from_numbers(&[1, 2, 3, 4, 3, 5, 6]), None);
        assert_eq!(State::from_numbers(&[]), None);
    }
}
