//! Division by a number that is known in advance, as a multiplication.

/// Divides numbers below 2^63 by a fixed number, exactly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    /// What makes a rounding down one up: by − 1.
    round_up: u64,
    /// ⌈2^(63 + shift) / by⌉
    multiplier: u64,
    /// ⌈log2 by⌉
    shift: u32,
}

impl Divisor {
    /// `by` must lie between 1 and 2^63.
    pub(crate) fn new(by: u64) -> Self {
        let shift = by.next_power_of_two().trailing_zeros();
        let multiplier = (1_u128 << (63 + shift)).div_ceil(u128::from(by));
        // by > 2^(shift − 1), so the multiplier is at most 2^64; only a power of two comes near.
        Self { round_up: by - 1, multiplier: u64::try_from(multiplier).unwrap_or(u64::MAX), shift }
    }

    /// ⌊x / by⌋ for x below 2^63.
    ///
    /// multiplier·by = 2^(63 + shift) + e with 0 ≤ e < by ≤ 2^shift, so x·multiplier / 2^(63 +
    /// shift) exceeds x/by by less than x / (by·2^63) < 1/by: too little to reach the next whole
    /// number (Granlund and Montgomery, 1994).
    #[inline]
    pub(crate) const fn floor(self, x: u64) -> u64 {
        let product = (x << 1) as u128 * self.multiplier as u128;
        let high = (product >> 64) as u64;
        high >> self.shift
    }

    /// ⌈x / by⌉ for x + by up to 2^63.
    #[inline]
    pub(crate) const fn ceil(self, x: u64) -> u64 {
        self.floor(x + self.round_up)
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;

    #[test]
    fn divides_exactly_at_the_edges_and_at_random() {
        const MAX: u64 = (1 << 63) - 1;
        let edges = [1, 2, 3, 7, 999_983, 1 << 31, (1 << 32) - 1, 1 << 62, MAX - 1, MAX];
        let mut random = 0x1234_5678_9ABC_DEF1_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 1) >> (random & 63)
        };
        for round in 0..200_000_usize {
            let by = edges.get(round).copied().unwrap_or_else(&mut next).max(1);
            let divisor = Divisor::new(by);
            let around = (next() / by).wrapping_mul(by) & MAX;
            let near = [around, around.saturating_sub(1), (around + 1).min(MAX), by, by - 1];
            for x in edges.into_iter().chain(near).chain([0, next()]) {
                assert_eq!(divisor.floor(x), x / by, "{x} / {by}");
                if x + by <= MAX {
                    assert_eq!(divisor.ceil(x), x.div_ceil(by), "{x} / {by}");
                }
            }
        }
    }
}
