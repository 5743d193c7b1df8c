//! The schedule in one word, TAT·l, when all products fit 64 bits: the hot path of memory.

use super::Pace;
use super::divisor::Divisor;
use crate::algorithm::OneWord;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::state::Words;
use crate::time::{MICROS_PER_MS, Now};

/// With l up to here, an instant below 2^53 times l stays below 2^63.
const SCALE_MAX: u64 = 1 << 10;

/// All lengths are in 1/l microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    /// What one unit takes: T·l.
    unit: u64,
    scale: u64,
    burst: u64,
    /// What a full debt takes: τ·l.
    full: u64,
    pace: Pace,
    by_unit: Divisor,
    by_scale: Divisor,
    by_ms: Divisor,
}

impl Word {
    pub(super) fn new(p: u64, l: u64, burst: u64, pace: Pace) -> Option<Self> {
        (l <= SCALE_MAX).then(|| Self {
            unit: p,
            scale: l,
            burst,
            full: p * burst,
            pace,
            by_unit: Divisor::new(p),
            by_scale: Divisor::new(l),
            by_ms: Divisor::new(l * MICROS_PER_MS),
        })
    }

    #[inline]
    fn delay_ms(&self, start: u64, now: u64) -> u64 {
        match self.pace {
            Pace::AtOnce => 0,
            Pace::Shaped => self.by_ms.ceil(start - now),
        }
    }

    /// The decision when nothing is charged.
    #[cold]
    fn refuse(&self, start: u64, now: u64, reading: u64, cost: u64) -> Decision {
        let remaining = self.by_unit.floor(self.full.saturating_sub(start - now));
        // A key without debt is fresh now, whatever floor the store decides at.
        let reset_at_ms = self.by_ms.ceil(if start > now { start } else { reading });
        if cost > self.burst {
            return Decision::never(self.burst, remaining, reset_at_ms);
        }
        let wait = start + self.unit * cost - self.full - reading;
        Decision::denied(self.burst, remaining, reset_at_ms, self.by_ms.ceil(wait))
    }
}

impl OneWord for Word {
    fn scale(&self) -> u64 {
        self.scale
    }

    fn throttled_above(&self) -> u64 {
        self.full - self.unit
    }

    #[inline]
    fn step(&self, word: u64, now: Now, cost: Cost) -> (Decision, Option<u64>) {
        let (at, cost) = (now.effective() * self.scale, cost.get());
        let start = word.max(at);
        let reading = now.reading() * self.scale;
        if cost > self.burst || start - at > self.full - self.unit * cost {
            return (self.refuse(start, at, reading, cost), None);
        }
        let next = start + self.unit * cost;
        let remaining = self.by_unit.floor(self.full - (next - at));
        let decision = Decision::allowed(self.burst, remaining, self.by_ms.ceil(next))
            .after(self.delay_ms(start, reading));
        (decision, Some(next))
    }

    fn pack(&self, words: &[u64]) -> u64 {
        match words {
            [whole, fraction] => whole * self.scale + fraction,
            _ => 0,
        }
    }

    fn unpack(&self, word: u64) -> Words {
        let whole = self.by_scale.floor(word);
        Words::new(&[whole, word - whole * self.scale])
    }
}
