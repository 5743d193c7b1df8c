//! Seeded pseudo-random numbers (SplitMix64): the same seed gives the same trace on every machine.

/// A generator. Every failure message carries the seed that made it.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound` (0 for a bound of 0). The bias of the remainder is irrelevant here.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next_u64() % bound }
    }

    /// A number from `low` to `high`, both included.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).saturating_add(1))
    }

    /// A number from 1 to `high` whose magnitude is random: small ones are as likely as large ones.
    pub const fn of_any_size(&mut self, high: u64) -> u64 {
        let bits = u64::BITS - high.leading_zeros();
        let shift = self.below(bits as u64);
        let number = self.below(high) >> shift;
        if number == 0 { 1 } else { number }
    }

    /// True once in `n` times.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of the items.
    pub fn pick<T: Copy>(&mut self, items: &[T], otherwise: T) -> T {
        let index = self.below(u64::try_from(items.len()).unwrap_or(u64::MAX));
        let index = usize::try_from(index).unwrap_or(0);
        items.get(index).copied().unwrap_or(otherwise)
    }
}
