//! Algorithms without a script need a connection of their own, which HTTP has none of.

use tollgate_core::algorithm::{Custom, CustomAlgorithm, CustomStep};
use tollgate_core::{Code, Cost, Decision, Limit, Limiter, Micros, Now};
use tollgate_test_servers::shared;

use super::{shim, store, upstash};

/// One unit, once.
#[derive(Debug)]
struct Once;

impl Custom for Once {
    type State = ();
    const NAME: &'static str = "test_once";

    fn parameters(&self) -> [u64; 3] {
        [0; 3]
    }

    fn ceiling(&self) -> u64 {
        1
    }

    fn horizon(&self) -> Micros {
        1
    }

    fn encode(&self, (): &()) -> Vec<u64> {
        Vec::new()
    }

    fn decode(&self, words: &[u64]) -> Option<()> {
        words.is_empty().then_some(())
    }

    fn step(&self, _: Option<&()>, now: Now, _: Cost) -> CustomStep<()> {
        let next = Some(((), now.effective() + 1));
        CustomStep { decision: Decision::allowed(1, 0, now.reading()), next }
    }
}

#[tokio::test]
async fn an_algorithm_without_a_script_is_unsupported_and_never_fails_open() {
    let shim = shim(shared::redis());
    let limiter = Limiter::new(store(upstash(&shim.url())));
    let limit = Limit::new("custom", CustomAlgorithm::new(Once)).unwrap();
    let error = limiter.check(limit.charge("ada")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unsupported, "{error}");
    assert_eq!(shim.requests(), 0);
}
