//! Exact rational numbers for the reference model.
//!
//! A number is a big rational. Because a soak runs tens of millions of steps, a number that fits is
//! kept as a fraction of two `i128` and every operation on it is checked: whatever could overflow
//! is done in [`BigRational`] instead. Fractions are not reduced on the way (the model only ever
//! meets a few denominators), so equality is by value, never by representation.

use core::cmp::Ordering;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::ToPrimitive;

/// An exact rational number.
#[derive(Clone, Debug)]
pub(crate) struct Real(Repr);

#[derive(Clone, Debug)]
enum Repr {
    /// `numerator / denominator`, the denominator above 0.
    Small(i128, i128),
    Big(Box<BigRational>),
}

impl Real {
    pub(crate) fn whole(number: u64) -> Self {
        Self(Repr::Small(i128::from(number), 1))
    }

    /// `numerator / denominator`; the denominator is a number of a quota and so never 0.
    pub(crate) fn ratio(numerator: u64, denominator: u64) -> Self {
        Self(Repr::Small(i128::from(numerator), i128::from(denominator.max(1))))
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let small = self.common(other).and_then(|(a, b, over)| {
            let sum = a.checked_add(b)?;
            Some(Self(Repr::Small(sum, over)))
        });
        small.unwrap_or_else(|| Self::big(self.to_big() + other.to_big()))
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        let small = self.common(other).and_then(|(a, b, over)| {
            let difference = a.checked_sub(b)?;
            Some(Self(Repr::Small(difference, over)))
        });
        small.unwrap_or_else(|| Self::big(self.to_big() - other.to_big()))
    }

    pub(crate) fn times(&self, units: u64) -> Self {
        if let Repr::Small(a, over) = self.0
            && let Some(product) = a.checked_mul(i128::from(units))
        {
            return Self(Repr::Small(product, over));
        }
        Self::big(self.to_big() * BigInt::from(units))
    }

    /// The quotient. The divisor is a length of time, above 0.
    pub(crate) fn over(&self, divisor: &Self) -> Self {
        // Over a common denominator the quotient of two fractions is that of their numerators.
        match self.common(divisor) {
            Some((a, b, _)) if b > 0 => Self(Repr::Small(a, b)),
            _ => Self::big(self.to_big() / divisor.to_big()),
        }
    }

    /// What is left of this number, which is not negative, after taking the divisor out of it as
    /// often as possible. The divisor is a length of time, above 0.
    pub(crate) fn modulo(&self, divisor: &Self) -> Self {
        match self.common(divisor) {
            Some((a, b, over)) if b > 0 => Self(Repr::Small(a.rem_euclid(b), over)),
            _ => {
                let (number, divisor) = (self.to_big(), divisor.to_big());
                let times = (&number / &divisor).floor();
                Self::big(number - times * divisor)
            }
        }
    }

    pub(crate) fn at_least(self, other: &Self) -> Self {
        if self.compare(other) == Ordering::Less { other.clone() } else { self }
    }

    pub(crate) fn exceeds(&self, other: &Self) -> bool {
        self.compare(other) == Ordering::Greater
    }

    /// The largest whole number that is not above; 0 for negative numbers.
    pub(crate) fn floor(&self) -> u64 {
        match &self.0 {
            Repr::Small(a, over) => clamp(a.div_euclid(*over)),
            Repr::Big(big) => clamp_big(&big.floor()),
        }
    }

    /// The smallest whole number that is not below; 0 for negative numbers.
    pub(crate) fn ceil(&self) -> u64 {
        match &self.0 {
            Repr::Small(a, over) => {
                let rest = i128::from(a.rem_euclid(*over) != 0);
                clamp(a.div_euclid(*over) + rest)
            }
            Repr::Big(big) => clamp_big(&big.ceil()),
        }
    }

    /// Microseconds as whole milliseconds, rounded up.
    pub(crate) fn ms_up(&self) -> u64 {
        self.over(&Self::whole(1_000)).ceil()
    }

    fn compare(&self, other: &Self) -> Ordering {
        match self.common(other) {
            Some((a, b, _)) => a.cmp(&b),
            None => self.to_big().cmp(&other.to_big()),
        }
    }

    /// Both numerators over a common denominator, if everything fits.
    fn common(&self, other: &Self) -> Option<(i128, i128, i128)> {
        let (Repr::Small(a, over_a), Repr::Small(b, over_b)) = (&self.0, &other.0) else {
            return None;
        };
        match (*over_a, *over_b) {
            (x, y) if x == y => Some((*a, *b, x)),
            (x, 1) => Some((*a, b.checked_mul(x)?, x)),
            (1, y) => Some((a.checked_mul(y)?, *b, y)),
            (x, y) => Some((a.checked_mul(y)?, b.checked_mul(x)?, x.checked_mul(y)?)),
        }
    }

    fn to_big(&self) -> BigRational {
        match &self.0 {
            Repr::Small(a, over) => BigRational::new(BigInt::from(*a), BigInt::from(*over)),
            Repr::Big(big) => (**big).clone(),
        }
    }

    fn big(big: BigRational) -> Self {
        // Back to the small form as soon as it fits: one huge intermediate must not slow a run
        // down.
        match (big.numer().to_i128(), big.denom().to_i128()) {
            (Some(a), Some(over)) => Self(Repr::Small(a, over)),
            _ => Self(Repr::Big(Box::new(big))),
        }
    }
}

fn clamp(number: i128) -> u64 {
    u64::try_from(number.max(0)).unwrap_or(u64::MAX)
}

fn clamp_big(number: &BigRational) -> u64 {
    number.to_integer().to_i128().map_or(u64::MAX, clamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same number, forced into the big form.
    fn forced_big(number: &Real) -> Real {
        Real(Repr::Big(Box::new(number.to_big())))
    }

    #[test]
    fn small_and_big_forms_agree() {
        let mut rng = crate::rng::Rng::new(0x5EED);
        for round in 0..20_000 {
            let mut number = || {
                let (shift_a, shift_b) = (rng.below(64), rng.below(50));
                Real::ratio(rng.next_u64() >> shift_a, (rng.next_u64() >> 14 >> shift_b).max(1))
            };
            let (a, b) = (number(), number().plus(&Real::whole(1)));
            let (big_a, big_b) = (forced_big(&a), forced_big(&b));
            for (small, big) in [
                (a.plus(&b), big_a.plus(&big_b)),
                (a.minus(&b), big_a.minus(&big_b)),
                (a.over(&b), big_a.over(&big_b)),
                (a.times(977), big_a.times(977)),
                (a.modulo(&b), big_a.modulo(&big_b)),
            ] {
                assert_eq!(small.to_big(), big.to_big(), "round {round}");
                assert_eq!(small.floor(), forced_big(&big).floor(), "round {round}");
                assert_eq!(small.ceil(), forced_big(&big).ceil(), "round {round}");
            }
            assert_eq!(a.exceeds(&b), big_a.exceeds(&big_b), "round {round}");
        }
    }
}
