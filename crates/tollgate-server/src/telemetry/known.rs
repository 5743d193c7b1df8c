//! Metrics that are updated by every request, without a search by their labels: that costs as much
//! as a decision.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use tollgate::{Name, OutageMode, Verdict};

use super::sharded::{Counter, Histogram};

/// The protocols whose requests are timed.
const PROTOCOLS: [&str; 3] = ["http", "grpc", "resp"];

/// How a decision is counted, besides its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) degraded: Option<OutageMode>,
    pub(super) shadow: bool,
}

/// The number of outcomes.
const OUTCOMES: usize = 3 * 4 * 2;

/// The histogram of each protocol that had requests.
#[derive(Debug, Default)]
pub(super) struct ProtocolTimes([OnceLock<Histogram>; PROTOCOLS.len()]);

/// The counters of each policy that has decided.
#[derive(Debug, Default)]
pub(super) struct PolicyCounters(ArcSwap<HashMap<Name, Arc<Counters>>>);

type Counters = [OnceLock<Counter>; OUTCOMES];

impl ProtocolTimes {
    /// Records the duration of a request; `find` returns the histogram of a protocol that is new.
    pub(super) fn observe(&self, protocol: &str, took: Duration, find: impl Fn() -> Histogram) {
        let place = PROTOCOLS.iter().position(|known| *known == protocol);
        match place.and_then(|place| self.0.get(place)) {
            Some(histogram) => histogram.get_or_init(find).observe(took),
            None => find().observe(took),
        }
    }
}

impl PolicyCounters {
    /// Counts a decision; `find` returns the counter of an outcome that is new.
    pub(super) fn count(&self, policy: &Name, outcome: Outcome, find: impl Fn() -> Counter) {
        let count = |counters: &Counters| {
            if let Some(counter) = counters.get(outcome.index()) {
                counter.get_or_init(&find).inc();
            }
        };
        if let Some(counters) = self.0.load().get(policy) {
            return count(counters);
        }
        self.0.rcu(|known| {
            let mut known = HashMap::clone(known);
            known.entry(policy.clone()).or_default();
            known
        });
        if let Some(counters) = self.0.load().get(policy) {
            count(counters);
        }
    }
}

impl Outcome {
    const fn index(self) -> usize {
        let verdict = match self.verdict {
            Verdict::Allowed => 0,
            Verdict::Denied => 1,
            Verdict::Never => 2,
        };
        let degraded = match self.degraded {
            None => 0,
            Some(OutageMode::Open) => 1,
            Some(OutageMode::Closed) => 2,
            Some(_) => 3,
        };
        (verdict * 4 + degraded) * 2 + if self.shadow { 1 } else { 0 }
    }
}
