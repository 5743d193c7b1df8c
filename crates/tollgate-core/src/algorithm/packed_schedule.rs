//! An algorithm whose whole state is one instant, in one word: the schedule where all products fit
//! 64 bits.
//!
//! It lets a store admit with a single compare-and-swap. It decides exactly as the full-width step
//! does on the unpacked words; all lengths are in 1/scale microseconds.

use super::divisor::Divisor;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::state::Words;
use crate::time::{MICROS_PER_MS, Micros, Now};

/// With a scale up to here, a reading below 2^52 times the scale stays below 2^62, and the end of
/// any debt, below 2^53, below 2^63.
const SCALE_MAX: u64 = 1 << 10;
/// With a full ceiling up to here, a word without debt stays below 2^62 + 2^61, and a word with
/// debt and one cost below 2^64.
const FULL_MAX: u128 = 1 << 61;

/// The one-word form of a schedule.
#[derive(Clone, Copy, Debug)]
pub struct PackedSchedule {
    /// What one unit takes.
    unit: u64,
    scale: u64,
    burst: u64,
    /// What a full debt takes.
    full: u64,
    /// Whether an allowed request waits for its turn.
    shaped: bool,
    by_unit: Divisor,
    by_ms: Divisor,
}

impl PackedSchedule {
    /// One unit takes `unit / scale` microseconds and `burst` fit at once. `None` if the products
    /// could exceed 64 bits.
    pub(super) fn new(unit: u64, scale: u64, burst: u64, shaped: bool) -> Option<Self> {
        let fits = scale <= SCALE_MAX && u128::from(unit) * u128::from(burst) <= FULL_MAX;
        fits.then(|| Self {
            unit,
            scale,
            burst,
            full: unit * burst,
            shaped,
            by_unit: Divisor::new(unit),
            by_ms: Divisor::new(scale * MICROS_PER_MS),
        })
    }

    /// Words per microsecond: a key is fresh again at `word / scale`, rounded up.
    #[must_use]
    pub const fn scale(&self) -> u64 {
        self.scale
    }

    /// A key is throttled (not one unit is left) while `word - now × scale` exceeds this.
    #[must_use]
    pub const fn throttled_above(&self) -> u64 {
        self.full - self.unit
    }

    /// The word after charging `cost`, or `None` if that is not granted. A fresh key has word 0.
    #[must_use]
    #[inline]
    pub fn advance(&self, word: u64, now: Now, cost: Cost) -> Option<u64> {
        let at = now.effective() * self.scale;
        let start = word.max(at);
        let granted = cost.get() <= self.burst && start - at <= self.full - self.unit * cost.get();
        granted.then(|| start + self.unit * cost.get())
    }

    /// The decision that goes with an advance from `word` to `next`.
    #[must_use]
    #[inline(always)]
    pub fn granted(&self, word: u64, next: u64, now: Now) -> Decision {
        let at = now.effective() * self.scale;
        let remaining = self.by_unit.floor(self.full - (next - at));
        let delay_ms = if self.shaped {
            self.by_ms.ceil(word.max(at) - now.reading() * self.scale)
        } else {
            0
        };
        Decision::allowed(self.burst, remaining, self.by_ms.ceil(next)).after(delay_ms)
    }

    /// The decision when an advance was not granted.
    #[must_use]
    #[inline(always)]
    pub fn refused(&self, word: u64, now: Now, cost: Cost) -> Decision {
        let (at, reading) = (now.effective() * self.scale, now.reading() * self.scale);
        // If not even one unit is granted, none is left.
        let remaining = match cost {
            Cost::ONE => 0,
            _ => self.by_unit.floor(self.full.saturating_sub(word.saturating_sub(at))),
        };
        if cost.get() > self.burst {
            // A key without debt is fresh now, whatever floor the store decides at.
            let fresh_at = if word > at { word } else { reading };
            return Decision::never(self.burst, remaining, self.by_ms.ceil(fresh_at));
        }
        // The word is ahead of now: a key without debt would have been granted the cost.
        let wait = word + self.unit * cost.get() - self.full - reading;
        Decision::denied(self.burst, remaining, self.by_ms.ceil(word), self.by_ms.ceil(wait))
    }

    /// The word of a state.
    #[must_use]
    pub fn pack(&self, words: &[u64]) -> u64 {
        match words {
            [whole, fraction] => whole * self.scale + fraction,
            _ => 0,
        }
    }

    /// The state of a word.
    #[must_use]
    pub fn unpack(&self, word: u64) -> Words {
        Words::new(&[word / self.scale, word % self.scale])
    }

    /// The instant at which a key with this word is fresh again.
    #[must_use]
    pub fn fresh_at(&self, word: u64) -> Micros {
        word.div_ceil(self.scale)
    }
}
