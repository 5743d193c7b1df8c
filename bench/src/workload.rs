//! Which keys are checked, in which order: fixed seeds, the same for every contender.

/// How the checks spread over the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// One key takes every check.
    Hot,
    /// Ten thousand keys, equally likely.
    TenThousand,
    /// The same in a table of the default size, where a contender has one.
    TenThousandDefault,
    /// A million keys, equally likely.
    Million,
    /// A million keys, the k-th most popular with a probability proportional to 1/k.
    Zipf,
}

impl Spread {
    /// All spreads, in the order of the table. Those on the same tables are neighbours.
    pub(crate) const ALL: [Self; 5] =
        [Self::Hot, Self::TenThousand, Self::TenThousandDefault, Self::Million, Self::Zipf];

    /// How many keys there are.
    pub(crate) const fn keys(self) -> usize {
        match self {
            Self::Hot => 1,
            Self::TenThousand | Self::TenThousandDefault => 10_000,
            Self::Million | Self::Zipf => 1_000_000,
        }
    }

    /// Whether the table keeps its default size, instead of being made for the keys.
    pub(crate) const fn has_default_table(self) -> bool {
        matches!(self, Self::TenThousandDefault)
    }

    /// The name in filters.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::TenThousand => "10k",
            Self::TenThousandDefault => "10k-default",
            Self::Million => "1m",
            Self::Zipf => "zipf",
        }
    }

    /// The name in the table.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Hot => "1 hot key",
            Self::TenThousand => "10,000 uniform",
            Self::TenThousandDefault => "10,000 uniform, default table",
            Self::Million => "1,000,000 uniform",
            Self::Zipf => "1,000,000 Zipf(1)",
        }
    }

    /// The spread of this name.
    pub(crate) fn find(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|spread| spread.id() == id)
    }

    /// The order of `ops` checks for one thread, as indices into the keys.
    pub(crate) fn order(self, ops: usize, thread: usize) -> Vec<u32> {
        let mut random = Random::seeded(thread as u64);
        let keys = self.keys();
        if self == Self::Zipf {
            let popularity = harmonic_sums(keys);
            let total = popularity.last().copied().unwrap_or(0.0);
            let draw = |_| {
                let target = random.fraction() * total;
                let rank = popularity.partition_point(|&sum| sum <= target);
                scattered(rank.min(keys - 1), keys)
            };
            return (0..ops).map(draw).collect();
        }
        (0..ops).map(|_| random.below(keys)).collect()
    }
}

/// The keys: 15 bytes each, built once and shared by all contenders.
pub(crate) fn keys(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("user:{index:010}")).collect()
}

/// 1/1, 1/1 + 1/2, … : the unnormalised distribution function of Zipf(1).
fn harmonic_sums(count: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let next = |rank: usize| {
        sum += 1.0 / rank as f64;
        sum
    };
    (1..=count).map(next).collect()
}

/// Spreads the popular ranks over the key array, so that they are not neighbours in memory.
fn scattered(rank: usize, keys: usize) -> u32 {
    // A prime that does not divide the number of keys: a permutation.
    const STRIDE: usize = 611_953;
    (rank * STRIDE % keys) as u32
}

/// SplitMix64: enough randomness for an order of keys, the same on every machine.
struct Random(u64);

impl Random {
    fn seeded(seed: u64) -> Self {
        Self(0x7011_6A7E ^ seed.wrapping_mul(0xD134_2543_DE82_EF95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> u32 {
        ((u128::from(self.next()) * bound as u128) >> 64) as u32
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_stay_within_the_keys_and_repeat_exactly() {
        for spread in Spread::ALL {
            let order = spread.order(10_000, 1);
            assert!(order.iter().all(|&index| (index as usize) < spread.keys()));
            assert_eq!(order, spread.order(10_000, 1));
        }
    }

    #[test]
    fn zipf_gives_the_most_popular_key_its_share() {
        let order = Spread::Zipf.order(200_000, 0);
        let share = order.iter().filter(|&&index| index == 0).count() as f64 / 200_000.0;
        // 1 / H(1,000,000) = 1 / 14.39.
        assert!((share - 0.0695).abs() < 0.003, "{share}");
    }

    #[test]
    fn scattering_is_a_permutation() {
        let mut seen = vec![false; 1_000_000];
        for rank in 0..1_000_000 {
            let index = scattered(rank, 1_000_000) as usize;
            assert!(!std::mem::replace(&mut seen[index], true));
        }
    }
}
