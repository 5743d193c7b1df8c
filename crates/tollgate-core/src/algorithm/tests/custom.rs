//! What the adapter of a user's algorithm passes on.

use super::*;
use crate::algorithm::{Debt, Renewal, ScriptedStep};

const SCRIPT: &str = "function(words, now, cost, parameters) end";

/// A budget that can be made from its numbers, with a script.
#[derive(Debug)]
struct Scripted([u64; 3]);

impl Custom for Scripted {
    type State = u64;
    const NAME: &'static str = "scripted";

    fn parameters(&self) -> [u64; 3] {
        self.0
    }

    fn from_parameters(parameters: [u64; 3]) -> Option<Self> {
        Some(Self(parameters))
    }

    fn ceiling(&self) -> u64 {
        self.0[0]
    }

    fn horizon(&self) -> Micros {
        7
    }

    fn encode(&self, spent: &u64) -> Vec<u64> {
        vec![*spent]
    }

    fn decode(&self, words: &[u64]) -> Option<u64> {
        if let [spent] = words { Some(*spent) } else { None }
    }

    fn step(&self, spent: Option<&u64>, now: Now, cost: Cost) -> CustomStep<u64> {
        Budget(self.0[0]).step(spent, now, cost)
    }

    fn script(&self) -> Option<&'static str> {
        Some(SCRIPT)
    }
}

#[test]
fn a_users_algorithm_is_described_by_its_own_numbers() {
    let algorithm = CustomAlgorithm::new(Scripted([10, 2, 3]));
    assert_eq!((algorithm.name(), algorithm.ceiling()), ("scripted", 10));
    assert_eq!((algorithm.horizon(), algorithm.window()), (7, 7));
    let described = algorithm.describe();
    assert_eq!((described.ceiling, described.units, described.period), (10, 10, 7));
    assert_eq!(described.renewal, Renewal::Unstated);
}

#[test]
fn words_that_a_users_algorithm_cannot_read_are_no_state() {
    let algorithm = CustomAlgorithm::new(Scripted([10, 2, 3]));
    for (words, accepted) in [(&[][..], true), (&[4], true), (&[4, 5], false)] {
        assert_eq!(algorithm.accepts(words), accepted, "{words:?}");
    }
}

#[test]
fn a_quota_of_a_users_algorithm_is_recalled_if_it_can_be_made_from_its_numbers() {
    let quota_id = |numbers| CustomAlgorithm::new(Scripted(numbers)).quota_id();
    let algorithm = CustomAlgorithm::new(Scripted([10, 2, 3]));
    let recalled = algorithm.recall(quota_id([4, 5, 6])).unwrap();
    assert_eq!((recalled.quota_id(), recalled.ceiling()), (quota_id([4, 5, 6]), 4));
    let gcra = Gcra::new(Quota::per_minute(5)).unwrap();
    let recalled = algorithm.recall(gcra.quota_id()).unwrap();
    assert_eq!((recalled.quota_id(), recalled.name()), (gcra.quota_id(), "gcra"));
    let budget = CustomAlgorithm::new(Budget(10));
    assert!(budget.recall(budget.quota_id()).is_none());
}

#[test]
fn a_debt_becomes_a_state_of_a_users_algorithm_by_one_step() {
    let algorithm = CustomAlgorithm::new(Scripted([10, 2, 3]));
    let write = algorithm.indebted(Debt { units: 3, seen: NOW });
    assert_eq!((&*write.words, write.fresh_at), (&[3][..], NOW + 1));
    let refused = algorithm.indebted(Debt { units: 11, seen: NOW });
    assert_eq!((&*refused.words, refused.fresh_at), (&[][..], NOW));
}

#[test]
fn a_users_script_runs_where_its_numbers_are_exact() {
    let step = |largest| CustomAlgorithm::new(Scripted([1, largest, 3])).scripted_step();
    assert_eq!(step((1 << 53) - 1), Some(ScriptedStep::Custom(SCRIPT)));
    assert_eq!((step(1 << 53), step((1 << 53) + 1)), (None, None));
    let mut numbers = Vec::new();
    CustomAlgorithm::new(Scripted([1, 2, 3])).script_quota(&mut numbers);
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(CustomAlgorithm::new(Budget(1)).scripted_step(), None, "it has no script");
}
