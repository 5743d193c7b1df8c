//! Numbers for pairs of prefix and policy, the same in every store of the process.
//!
//! A store finds the states of a policy by this number, so that a check compares no names. Numbers
//! are never given back: policies come from the configuration or from the program, not from
//! callers. Pairs beyond [`NAMESPACES_MAX`] share the last number.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// How many pairs have a number of their own; those that come later share one more.
pub(super) const NAMESPACES_MAX: usize = 1_023;

static NUMBERS: LazyLock<Numbers> = LazyLock::new(Numbers::default);

/// The number of a pair. A pair that is new gets one, as long as there are any.
pub(super) fn number_of(prefix: &str, policy: &str) -> usize {
    NUMBERS.number_of(prefix, policy)
}

/// The number of a pair, unless no limit was ever made for it.
pub(super) fn known(prefix: &str, policy: &str) -> Option<usize> {
    NUMBERS.known(prefix, policy)
}

#[derive(Debug, Default)]
struct Numbers(RwLock<HashMap<Pair, usize>>);

/// A prefix and a policy.
type Pair = (Box<str>, Box<str>);

impl Numbers {
    fn number_of(&self, prefix: &str, policy: &str) -> usize {
        if let Some(number) = self.known(prefix, policy) {
            return number;
        }
        let mut numbers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let next = numbers.len();
        let pair = (prefix.into(), policy.into());
        match numbers.get(&pair) {
            Some(number) => *number,
            None if next >= NAMESPACES_MAX => NAMESPACES_MAX,
            None => *numbers.entry(pair).or_insert(next),
        }
    }

    fn known(&self, prefix: &str, policy: &str) -> Option<usize> {
        let numbers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let number = numbers.get(&(prefix.into(), policy.into())).copied();
        number.or_else(|| (numbers.len() >= NAMESPACES_MAX).then_some(NAMESPACES_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_a_number_and_late_ones_share_the_last() {
        let numbers = Numbers::default();
        assert_eq!(numbers.known("a", "b"), None);
        let first: Vec<usize> = (0..2 * NAMESPACES_MAX)
            .map(|policy| numbers.number_of("a", &policy.to_string()))
            .collect();
        let expected: Vec<usize> = (0..2 * NAMESPACES_MAX).map(|n| n.min(NAMESPACES_MAX)).collect();
        assert_eq!(first, expected);
        assert_eq!(numbers.number_of("a", "7"), 7, "numbers never change");
        assert_eq!(numbers.known("b", "7"), Some(NAMESPACES_MAX));
        assert_eq!(numbers.0.into_inner().unwrap().len(), NAMESPACES_MAX, "the list is bounded");
    }
}
