//! How many admissions a round decides: as many as keep it short.
//!
//! Callers wait for the round that is under way and for their own one. What a decision costs
//! depends on the request (one with a request id writes two values) and on the machine, so rounds
//! are measured. Where a commit takes longer than the decisions may, it is worth more of them.

use tollgate_core::Micros;

/// How long the decisions of a round may take.
const DECIDING: Micros = 3_000;
/// The smallest bound: a commit is shared by this many in any case.
const MIN: usize = 64;
/// The largest bound.
const MAX: usize = 1_000;

/// The bound of the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundSize(usize);

impl RoundSize {
    /// The bound before any round was measured.
    pub(crate) const fn first() -> Self {
        Self(MIN)
    }

    /// The bound after a round of this many admissions.
    pub(crate) fn after(admissions: usize, deciding: Micros, commit: Micros) -> Self {
        let admissions = u64::try_from(admissions).unwrap_or(u64::MAX);
        let fit = admissions.saturating_mul(DECIDING.max(commit)) / deciding.max(1);
        Self(usize::try_from(fit).unwrap_or(MAX).clamp(MIN, MAX))
    }

    pub(crate) const fn places(self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_as_large_as_they_may_take_long() {
        let places =
            |admissions, deciding, commit| RoundSize::after(admissions, deciding, commit).places();
        assert_eq!(places(100, 1_000, 100), 300);
        assert_eq!(places(300, 6_000, 100), 150);
        assert_eq!(places(300, 6_000, 12_000), 600, "a slow disk");
        assert_eq!((places(1, 9_000, 1), places(1_000, 9, 1)), (MIN, MAX));
        assert_eq!((places(0, 0, 0), places(usize::MAX, 1, u64::MAX)), (MIN, MAX));
    }
}
