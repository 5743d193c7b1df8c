//! Division by a number that is known in advance, as a multiplication.

/// Divides by a fixed number, exactly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    by: u64,
    /// ⌊(2^64 − 1) / by⌋
    reciprocal: u64,
}

impl Divisor {
    /// `by` must not be 0.
    pub(crate) const fn new(by: u64) -> Self {
        Self { by, reciprocal: u64::MAX / by }
    }

    /// ⌊x / by⌋.
    ///
    /// reciprocal·by = 2^64 − 1 − e with 0 ≤ e < by, so x·reciprocal / 2^64 lies in
    /// (x/by − 1, x/by]: the estimate is the quotient or one less.
    #[inline]
    pub(crate) const fn floor(self, x: u64) -> u64 {
        let estimate = high(x, self.reciprocal);
        let rest = x - estimate * self.by;
        if rest >= self.by { estimate + 1 } else { estimate }
    }

    /// ⌈x / by⌉, for x + by within 64 bits.
    #[inline]
    pub(crate) const fn ceil(self, x: u64) -> u64 {
        self.floor(x + (self.by - 1))
    }
}

/// The upper half of a product.
#[inline]
const fn high(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::Divisor;

    #[test]
    fn divides_exactly_at_the_edges_and_at_random() {
        let edges = [1, 2, 3, 7, 999_983, 1 << 31, (1 << 32) - 1, 1 << 62, u64::MAX - 1, u64::MAX];
        let mut random = 0x1234_5678_9ABC_DEF1_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random >> (random & 63)
        };
        for round in 0..200_000_usize {
            let by = edges.get(round).copied().unwrap_or_else(&mut next).max(1);
            let divisor = Divisor::new(by);
            for x in edges.into_iter().chain([0, next(), by, by - 1, by.wrapping_mul(3)]) {
                assert_eq!(divisor.floor(x), x / by, "{x} / {by}");
                if x.checked_add(by).is_some() {
                    assert_eq!(divisor.ceil(x), x.div_ceil(by), "{x} / {by}");
                }
            }
        }
    }
}
