//! Charges that take as many units as there are, between two numbers.
//!
//! All ranges of an admission are granted the same number of units, each as far as its own range
//! goes: the largest number with which the whole admission is allowed. What is allowed for a number
//! of units is allowed for fewer, so there is one, or none at all. Then the ordinary steps run,
//! each with the number that is granted.

use super::plan::{Plan, plan_exactly, words_under};
use crate::charge::Charge;
use crate::cost::Cost;
use crate::error::Result;
use crate::state::State;
use crate::time::Now;

/// The charges of an admission that has a range.
pub(super) struct Ranges<'a> {
    charges: &'a [Charge<'a>],
    /// The fewest units and the most that make a difference to any of the ranges.
    least: Cost,
    most: Cost,
}

impl<'a> Ranges<'a> {
    pub(super) fn of(charges: &'a [Charge<'a>]) -> Option<Self> {
        let ranges = || charges.iter().filter_map(Charge::range);
        let least = ranges().map(|(min, _)| min).min()?;
        let most = ranges().map(|(_, max)| max).max()?;
        Some(Self { charges, least, most })
    }

    /// The plan that grants the most, or that of the denial of the fewest.
    pub(super) fn plan(&self, slots: &[usize], states: &[Option<State>], now: Now) -> Result<Plan> {
        let try_units = |units: Cost| self.plan_of(units, slots, states, now);
        let mut denied = self.bound(slots, states, now)?;
        let planned = try_units(denied)?;
        if planned.admitted || denied == self.least {
            return Ok(planned);
        }
        // Several charges share a key, or another charge of the admission is denied.
        let (mut granted, mut best) = (self.least, try_units(self.least)?);
        while best.admitted
            && let Some(between) = half_way(granted, denied)
        {
            let planned = try_units(between)?;
            if planned.admitted {
                (granted, best) = (between, planned);
            } else {
                denied = between;
            }
        }
        Ok(best)
    }

    /// The plan if the ranges take this many units.
    fn plan_of(
        &self,
        units: Cost,
        slots: &[usize],
        states: &[Option<State>],
        now: Now,
    ) -> Result<Plan> {
        let exact: Vec<Charge<'_>> =
            self.charges.iter().map(|charge| charge.exactly(units)).collect();
        let mut planned = plan_exactly(&exact, slots, states, now)?;
        if planned.admitted {
            let granted = self.charges.iter().zip(&exact);
            let granted = granted.map(|(charge, exact)| charge.range().map(|_| exact.cost));
            let decisions = planned.decisions.into_iter().zip(granted);
            planned.decisions = decisions.map(|(one, units)| one.granting(units)).collect();
        }
        Ok(planned)
    }

    /// A number of units above which nothing can be granted, if nothing is settled: the least
    /// that the keys of the ranges can spend.
    fn bound(&self, slots: &[usize], states: &[Option<State>], now: Now) -> Result<Cost> {
        if self.charges.iter().any(|charge| !charge.operation.takes()) {
            return Ok(self.most);
        }
        let mut bound = self.most;
        for (charge, slot) in self.charges.iter().zip(slots) {
            let Some((_, max)) = charge.range() else { continue };
            let rule = charge.rule();
            let words = words_under(rule, states.get(*slot).and_then(Option::as_ref), now)?;
            let spendable = rule.peek(&words, now, Cost::ONE).remaining;
            if spendable < max.get() {
                bound = bound.min(Cost::new(spendable.max(1))?);
            }
        }
        Ok(bound.max(self.least))
    }
}

/// A number strictly between two; absent if there is none.
fn half_way(low: Cost, high: Cost) -> Option<Cost> {
    let middle = low.get().midpoint(high.get());
    Cost::new(middle).ok().filter(|middle| *middle > low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;
    use crate::quota::Quota;
    use crate::store::slots_of;

    fn cost(units: u64) -> Cost {
        Cost::new(units).unwrap()
    }

    fn granted(charges: &[Charge<'_>]) -> Vec<Option<u64>> {
        let (slots, keys) = slots_of(charges);
        let fresh = vec![None; keys.len()];
        let planned = Ranges::of(charges).unwrap().plan(&slots, &fresh, Now::at(0)).unwrap();
        let units = planned.decisions.iter().map(|one| one.granted().map(Cost::get));
        units.collect()
    }

    #[test]
    fn all_ranges_are_granted_the_same_as_far_as_they_go() {
        let [ten, five] = [("ten", 10), ("five", 5)]
            .map(|(name, units)| Limit::gcra(name, Quota::per_minute(units)).unwrap());
        let range = |limit: &'_ Limit, min, max| (limit.clone(), cost(min), cost(max));
        for (ranges, expected) in [
            (vec![range(&ten, 1, 20)], vec![Some(10)]),
            (vec![range(&ten, 1, 4)], vec![Some(4)]),
            (vec![range(&ten, 11, 20)], vec![None]),
            (vec![range(&ten, 3, 2)], vec![Some(3)]),
            (vec![range(&ten, 1, 8), range(&five, 1, 8)], vec![Some(5), Some(5)]),
            (vec![range(&ten, 7, 8), range(&five, 1, 8)], vec![Some(7), Some(5)]),
            (vec![range(&ten, 1, 8), range(&five, 6, 8)], vec![None, None]),
            // Two of one key share it.
            (vec![range(&ten, 1, 20), range(&ten, 1, 20)], vec![Some(5), Some(5)]),
            (vec![range(&ten, 1, 20), range(&ten, 3, 4)], vec![Some(6), Some(4)]),
            (vec![range(&ten, 6, 20), range(&ten, 5, 20)], vec![None, None]),
        ] {
            let charges: Vec<Charge<'_>> = ranges
                .iter()
                .map(|(limit, min, max)| limit.charge("x").cost(*min).up_to(*max))
                .collect();
            assert_eq!(granted(&charges), expected, "{ranges:?}");
        }
        let charges = [ten.charge("x").cost(cost(7)), ten.charge("x").up_to(cost(9))];
        assert_eq!(granted(&charges), [None, Some(3)], "beside an exact cost");
    }
}
