//! Clauses about algorithms that users write, and about states of unknown algorithms.

use tollgate_core::algorithm::{Custom, CustomAlgorithm, CustomStep};
use tollgate_core::store::Store;
use tollgate_core::{Code, Cost, Decision, Micros, Now, Rule};

use super::suite::{Suite, cost};
use super::{MONTH, every_quota, skipped};
use crate::runtime::join_all;

/// A user's algorithm: a number of units, once for as long as the key is stored.
#[derive(Debug)]
struct Allowance {
    units: u64,
}

impl Custom for Allowance {
    type State = u64;
    const NAME: &'static str = "testkit_allowance";

    fn parameters(&self) -> [u64; 3] {
        [self.units, 0, 0]
    }

    fn ceiling(&self) -> u64 {
        self.units
    }

    fn horizon(&self) -> Micros {
        MONTH
    }

    fn encode(&self, used: &u64) -> Vec<u64> {
        // A long state, so that stores which keep short ones apart meet it too.
        vec![*used, 1, 2, 3, 4, 5, 6]
    }

    fn decode(&self, words: &[u64]) -> Option<u64> {
        match words {
            [used, 1, 2, 3, 4, 5, 6] => Some(*used),
            _ => None,
        }
    }

    fn step(&self, used: Option<&u64>, now: Now, cost: Cost) -> CustomStep<u64> {
        let used = used.copied().unwrap_or(0);
        let (left, reset) = (self.units - used, (now.reading() + MONTH).div_ceil(1_000));
        if cost.get() > self.units {
            return CustomStep { decision: Decision::never(self.units, left, reset), next: None };
        }
        if cost.get() > left {
            let decision = Decision::denied(self.units, left, reset, MONTH / 1_000);
            return CustomStep { decision, next: None };
        }
        let decision = Decision::allowed(self.units, left - cost.get(), reset);
        CustomStep { decision, next: Some((used + cost.get(), now.effective() + MONTH)) }
    }
}

/// A user-defined algorithm runs, atomically; a store that cannot run any says `unsupported`.
pub async fn user_algorithms_run<S: Store>(suite: &Suite<'_, S>) {
    let rule = Rule::new(CustomAlgorithm::new(Allowance { units: 30 }));
    let limit = suite.limit_of("custom", rule);
    let charge = limit.charge("someone").cost(cost(4));
    match suite.charge(charge, suite.at(0)).await {
        Err(error) if error.code() == Code::Unsupported => {
            return skipped("user_algorithms_run", "the store runs built-in algorithms only");
        }
        decided => assert_eq!(decided.expect("decides").remaining, 26),
    }
    let copies = (0..100).map(|_| suite.charge(limit.charge("someone"), suite.at(0)));
    let mut passed = 0;
    for decision in join_all(copies).await {
        passed += u64::from(decision.expect("decides").is_allowed());
    }
    if suite.capability().exact {
        assert_eq!(passed, 26, "of 100 concurrent checks with 26 units left");
        assert_eq!(suite.remaining(&limit, "someone", suite.at(0)).await, 0);
    }
    assert_eq!(suite.remaining(&limit, "another key", suite.at(0)).await, 30);
}

/// A state of an unknown algorithm is refused, never read as a fresh key and never
/// overwritten; `reset` is the cure.
pub async fn unknown_states_are_refused<S: Store>(suite: &Suite<'_, S>) {
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let policy = format!("unknown-{index}");
        let custom = Rule::new(CustomAlgorithm::new(Allowance { units: 5 }));
        let (custom, built_in) = (suite.limit_of(&policy, custom), suite.limit(&policy, quota));
        let three = custom.charge("someone").cost(cost(3));
        match suite.charge(three, suite.at(0)).await {
            Err(error) if error.code() == Code::Unsupported => {
                return skipped("unknown_states_are_refused", "no user algorithm can run");
            }
            decided => assert_eq!(decided.expect("decides").remaining, 2),
        }
        let refused = suite.charge(built_in.charge("someone"), suite.at(0)).await;
        let code = refused.map_err(|error| error.code());
        assert_eq!(code.clone().err(), Some(Code::CorruptState), "{quota:?} decided: {code:?}");
        let again = suite.charge(custom.charge("someone"), suite.at(0)).await.expect("decides");
        assert_eq!(again.remaining, 1, "a refused state was overwritten by {quota:?}");
        suite
            .store()
            .reset(built_in.key("someone"), suite.at(0))
            .await
            .expect("a key can be reset");
        let fresh = suite.charge(built_in.charge("someone"), suite.at(0)).await.expect("decides");
        assert_eq!(fresh.remaining, 9, "not fresh after a reset under {quota:?}");
    }
}
