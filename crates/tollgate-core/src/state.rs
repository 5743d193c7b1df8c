//! The state of a key: the id of the quota it was made under, and a few integers.
//!
//! The quota id is stored with the state, so that a changed quota is seen and carried over, never
//! misread. Every distributed store keeps the same text: one JSON array of integers, the four
//! numbers of the quota id first. The memory store keeps the words as they are.

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

/// The state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The quota the words were made under.
    pub quota_id: QuotaId,
    /// The algorithm's own integers.
    pub words: Words,
}

impl State {
    /// The text that every distributed store keeps: `[tag,a,b,c,word,…]`.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(16 * (4 + self.words.len()));
        let mut open = '[';
        for word in self.quota_id.0.iter().chain(self.words.iter()) {
            text.push(open);
            open = ',';
            // Writing to a string cannot fail.
            let _ = write!(text, "{word}");
        }
        text.push(']');
        text
    }

    /// Reads the text back. Only what [`State::to_text`] writes is accepted.
    ///
    /// # Errors
    /// `corrupt_state` when the text is anything else.
    pub fn from_text(text: &str) -> Result<Self> {
        let corrupt = || Error::new(Code::CorruptState, "a stored state is not a list of integers");
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let numbers: Vec<u64> = inner
            .ok_or_else(corrupt)?
            .split(',')
            .map(canonical_integer)
            .collect::<Option<_>>()
            .ok_or_else(corrupt)?;
        let (quota_id, words) = numbers.split_first_chunk::<4>().ok_or_else(corrupt)?;
        Ok(Self { quota_id: QuotaId(*quota_id), words: Words::new(words) })
    }
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
