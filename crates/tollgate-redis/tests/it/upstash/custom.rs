//! Algorithms without a script: decided in Rust, swapped in by a script.

use tollgate_core::algorithm::{Custom, CustomAlgorithm, CustomStep};
use tollgate_core::{Cost, Decision, Limit, Limiter, Micros, Now};
use tollgate_test_servers::shared;

use super::{shim, store, upstash};

const HOUR: Micros = 3_600_000_000;

/// One unit, once.
#[derive(Debug)]
struct Once;

impl Custom for Once {
    type State = u64;
    const NAME: &'static str = "test_once";

    fn parameters(&self) -> [u64; 3] {
        [0; 3]
    }

    fn ceiling(&self) -> u64 {
        1
    }

    fn horizon(&self) -> Micros {
        HOUR
    }

    fn encode(&self, used: &u64) -> Vec<u64> {
        vec![*used]
    }

    fn decode(&self, words: &[u64]) -> Option<u64> {
        words.first().copied()
    }

    fn step(&self, used: Option<&u64>, now: Now, _: Cost) -> CustomStep<u64> {
        let reset = (now.reading() + HOUR).div_ceil(1_000);
        if used.is_some() {
            return CustomStep { decision: Decision::denied(1, 0, reset, 1), next: None };
        }
        let next = Some((1, now.effective() + HOUR));
        CustomStep { decision: Decision::allowed(1, 0, reset), next }
    }
}

#[tokio::test]
async fn an_algorithm_without_a_script_is_charged_once() {
    let shim = shim(shared::redis());
    let limiter = Limiter::new(store(upstash(&shim.url())));
    let limit = Limit::new("custom", CustomAlgorithm::new(Once)).unwrap();
    limiter.reset(limit.charge("ada")).await.unwrap();
    for is_allowed in [true, false] {
        let decision = limiter.check(limit.charge("ada")).await.unwrap();
        assert_eq!((decision.is_allowed(), decision.degraded), (is_allowed, None));
    }
}
