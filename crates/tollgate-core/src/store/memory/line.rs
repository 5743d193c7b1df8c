//! One key in one cache line, and the critical section on it.
//!
//! # Layout, in 64-bit words
//! | word | one-word state | short state | long state |
//! |---|---|---|---|
//! | 0, 1 | fingerprint of the key; word 1 is 0 while the line was never used | same | same |
//! | 2 | control: lock bit, kind, fill, length, version | same | same |
//! | 3 | tag of the quota | same | same |
//! | 4 | the state under a mask, below 2^63; bit 63 while held | fresh again at | fresh again at |
//! | 5 | scale | word | index of the spilled words |
//! | 6 | throttled above | word | |
//! | 7 | | word | |
//!
//! # How it is exact
//! Control is a sequence lock: a reader trusts what it read only if control was unlocked and
//! unchanged around the reading, and every release counts the version up. A writer of a short state
//! takes the lock bit with a compare-and-swap from the version that it read. A one-word state is
//! changed by a single compare-and-swap of word 4, without the lock: the word is kept under a mask
//! made of the fingerprint and the tag, so that a value read while the line belonged to another key
//! or quota is not found again (except by a chance of 2^-63 in a race that is rare in itself), and
//! the swap fails. A holder of the lock first marks word 4 as held, so no swap can pass beside it.
//! Readers load with acquire and writers store with release, so a reader that sees a new word also
//! sees the lock taken before it was written.

mod charge;

use std::sync::atomic::AtomicU64;

pub(super) use self::charge::{Charged, charge, try_charge_word};
#[cfg(test)]
pub(super) use self::charge::{charge_short, charge_word};

use super::atomic_word::AtomicWord;
use super::fill::Fill;
use super::fingerprint::Id;
use crate::state::Words;
use crate::time::Micros;

/// The words of a line, which is one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Line<A = AtomicU64>(pub(super) [A; 8]);

/// How many words fit a line without spilling.
pub(super) const SHORT: usize = 3;

const LOCKED: u64 = 1;
const KIND_SHIFT: u32 = 1;
const KIND_MASK: u64 = 0b11;
const FILL_SHIFT: u32 = 3;
const LEN_SHIFT: u32 = 6;
const LEN_MASK: u64 = 0b11;
const VERSION: u64 = 1 << 8;
const HELD: u64 = 1 << 63;

const ONE_WORD: u64 = 1;
const SHORT_STATE: u64 = 2;
const LONG_STATE: u64 = 3;

/// What a line holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A state that is one instant.
    PackedSchedule {
        /// The unmasked word.
        word: u64,
        /// Words per microsecond.
        scale: u64,
        /// Throttled while the word is further ahead of now than this.
        throttled_above: u64,
    },
    /// A state of up to three words.
    Short { fresh_at: Micros, words: Words, fill: Fill },
    /// A longer state, kept elsewhere.
    Long { fresh_at: Micros, index: u64, fill: Fill },
}

impl Content {
    /// The instant from which the content means the same as none.
    pub(super) fn fresh_at(&self) -> Micros {
        match self {
            Self::PackedSchedule { word, scale, .. } => word.div_ceil((*scale).max(1)),
            Self::Short { fresh_at, .. } | Self::Long { fresh_at, .. } => *fresh_at,
        }
    }

    /// How much of its ceiling the key owes.
    pub(super) fn fill(&self, at: Micros) -> Fill {
        match self {
            Self::PackedSchedule { word, scale, throttled_above } => {
                Fill::of(word.saturating_sub(at * scale), throttled_above.saturating_add(1))
            }
            Self::Short { fill, .. } | Self::Long { fill, .. } => *fill,
        }
    }
}

/// Whether the line was never used. Once used, a line stays used.
#[inline]
pub(super) fn is_unused<A: AtomicWord>(line: &Line<A>) -> bool {
    line.0[1].load() == 0
}

/// Whether the line was used and has no key now.
pub(super) fn is_vacant<A: AtomicWord>(line: &Line<A>) -> bool {
    matches(line, Id::VACANT)
}

/// The tag of the quota in the line. Certain only under the sequence lock.
pub(super) fn tag<A: AtomicWord>(line: &Line<A>) -> u64 {
    line.0[3].load()
}

/// Whether the line may hold the key. To be confirmed under the sequence lock.
#[inline]
pub(super) fn resembles<A: AtomicWord>(line: &Line<A>, id: Id) -> bool {
    line.0[0].load() == id.low
}

/// Whether the line holds the key. Certain only under the sequence lock.
#[inline]
pub(super) fn matches<A: AtomicWord>(line: &Line<A>, id: Id) -> bool {
    line.0[0].load() == id.low && line.0[1].load() == id.high
}

/// A line held by its lock. Dropping it releases the line unchanged.
pub(super) struct Held<'a, A: AtomicWord = AtomicU64> {
    line: &'a Line<A>,
    control: u64,
    /// The masked word that was there when the line was taken.
    masked: Option<u64>,
}

impl<'a, A: AtomicWord> Held<'a, A> {
    /// Waits for the lock of a line.
    pub(super) fn lock(line: &'a Line<A>) -> Self {
        let mut spins = 0;
        loop {
            match Self::try_lock(line) {
                Some(held) => return held,
                None => A::wait(&mut spins),
            }
        }
    }

    /// Takes the lock of a line, unless it is held.
    pub(super) fn try_lock(line: &'a Line<A>) -> Option<Self> {
        let control = line.0[2].load();
        if control & LOCKED != 0 {
            return None;
        }
        if !line.0[2].replace(control, control | LOCKED) {
            return None;
        }
        // From here on no swap of the word succeeds: each compares it with a value that is not
        // held.
        let masked = (kind(control) == ONE_WORD).then(|| line.0[4].swap(HELD));
        Some(Self { line, control, masked })
    }

    /// The key in the line.
    pub(super) fn id(&self) -> Id {
        Id { low: self.line.0[0].load(), high: self.line.0[1].load() }
    }

    /// The tag of the quota of the state.
    pub(super) fn tag(&self) -> u64 {
        self.line.0[3].load()
    }

    /// The content; `None` while the line was never used.
    pub(super) fn content(&self) -> Option<Content> {
        let fill = Fill::from_bits(self.control >> FILL_SHIFT);
        let load = |index: &A| index.load();
        match (kind(self.control), self.masked) {
            (ONE_WORD, Some(masked)) => Some(Content::PackedSchedule {
                word: masked ^ mask(self.id(), self.tag()),
                scale: load(&self.line.0[5]),
                throttled_above: load(&self.line.0[6]),
            }),
            (SHORT_STATE, _) => Some(Content::Short {
                fresh_at: load(&self.line.0[4]),
                words: short_words(self.line, self.control),
                fill,
            }),
            (LONG_STATE, _) => Some(Content::Long {
                fresh_at: load(&self.line.0[4]),
                index: load(&self.line.0[5]),
                fill,
            }),
            _ => None,
        }
    }

    /// Whether no key is in the line: it was never used, or its key has moved or expired.
    pub(super) fn is_free(&self) -> bool {
        kind(self.control) == 0 || self.id() == Id::VACANT
    }

    /// Releases the line without a key. It stays used, so that searches go on behind it.
    pub(super) fn vacate(self) {
        let nothing = Words::new(&[]);
        let content = Content::Short { fresh_at: 0, words: nothing, fill: Fill::LITTLE };
        self.put(Id::VACANT, 0, &content);
    }

    /// Writes a key and its content, and releases the line.
    pub(super) fn put(mut self, id: Id, tag: u64, content: &Content) {
        let line = self.line;
        line.0[0].store(id.low);
        line.0[1].store(id.high);
        line.0[3].store(tag);
        let (kind, fill, len) = match content {
            Content::PackedSchedule { word, scale, throttled_above } => {
                line.0[5].store(*scale);
                line.0[6].store(*throttled_above);
                line.0[4].store(word ^ mask(id, tag));
                (ONE_WORD, Fill::LITTLE, 0)
            }
            Content::Short { fresh_at, words, fill } => {
                store_short(line, *fresh_at, words);
                (SHORT_STATE, *fill, words.len())
            }
            Content::Long { fresh_at, index, fill } => {
                line.0[4].store(*fresh_at);
                line.0[5].store(*index);
                (LONG_STATE, *fill, 0)
            }
        };
        self.masked = None;
        self.control = control_of(self.control, kind, fill, len);
    }
}

impl<A: AtomicWord> Drop for Held<'_, A> {
    fn drop(&mut self) {
        if let Some(masked) = self.masked {
            self.line.0[4].store(masked);
        }
        // One version on, even if nothing has changed: who read the word meanwhile reads again.
        self.line.0[2].store(self.control.wrapping_add(VERSION));
    }
}

fn store_short<A: AtomicWord>(line: &Line<A>, fresh_at: Micros, words: &[u64]) {
    line.0[4].store(fresh_at);
    let [.., first, second, third] = &line.0;
    for (slot, word) in [first, second, third].into_iter().zip(words) {
        slot.store(*word);
    }
}

fn short_words<A: AtomicWord>(line: &Line<A>, control: u64) -> Words {
    let words = [line.0[5].load(), line.0[6].load(), line.0[7].load()];
    let len = (control >> LEN_SHIFT & LEN_MASK).min(SHORT as u64);
    Words::new(words.get(..usize::try_from(len).unwrap_or(0)).unwrap_or_default())
}

const fn kind(control: u64) -> u64 {
    control >> KIND_SHIFT & KIND_MASK
}

/// The control word of a content: unlocked, of the version that it had.
const fn control_of(before: u64, kind: u64, fill: Fill, len: usize) -> u64 {
    let version = before & !(VERSION - 1);
    version | kind << KIND_SHIFT | fill.bits() << FILL_SHIFT | (len as u64) << LEN_SHIFT
}

/// What a one-word state is kept under: 63 bits that differ between keys and between quotas.
#[inline]
const fn mask(id: Id, tag: u64) -> u64 {
    (id.low ^ tag) & !HELD
}
