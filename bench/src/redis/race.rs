//! An algorithm without a script, on one hot key: a read and a script that compares and swaps.

use std::sync::Arc;

use tollgate::algorithm::{Custom, CustomAlgorithm, CustomStep};
use tollgate::authoring::Now;
use tollgate::store::{CallContext, Store as _};
use tollgate::{Admission, Code, Cost, Decision, Limit, Micros, Rule};
use tollgate_redis::Redis;

use super::callers::{Caller, Said};
use super::{PERIOD_SECONDS, UNITS};
use crate::Result;

/// The units of the key, which never come back while it exists.
#[derive(Debug)]
struct Allowance;

impl Custom for Allowance {
    type State = u64;
    const NAME: &'static str = "bench_allowance";

    fn parameters(&self) -> [u64; 3] {
        [UNITS, 0, 0]
    }

    fn ceiling(&self) -> u64 {
        UNITS
    }

    fn horizon(&self) -> Micros {
        PERIOD_SECONDS * 1_000_000
    }

    fn encode(&self, used: &u64) -> Vec<u64> {
        vec![*used]
    }

    fn decode(&self, words: &[u64]) -> Option<u64> {
        match words {
            [used] => Some(*used),
            _ => None,
        }
    }

    fn step(&self, used: Option<&u64>, now: Now, cost: Cost) -> CustomStep<u64> {
        let used = used.copied().unwrap_or(0);
        let left = UNITS.saturating_sub(used);
        let fresh_at = now.effective() + self.horizon();
        let reset = fresh_at.div_ceil(1_000);
        if cost.get() > UNITS {
            return CustomStep { decision: Decision::never(UNITS, left, reset), next: None };
        }
        if cost.get() > left {
            let wait = self.horizon() / 1_000;
            return CustomStep { decision: Decision::denied(UNITS, left, reset, wait), next: None };
        }
        let decision = Decision::allowed(UNITS, left - cost.get(), reset);
        CustomStep { decision, next: Some((used + cost.get(), fresh_at)) }
    }
}

/// A caller on the hot key.
#[derive(Debug)]
pub(super) struct Contender {
    store: Redis,
    limit: Arc<Limit>,
}

/// Contenders on one key: all of one store, or each of a store of its own, as if each were a
/// process.
pub(super) fn contenders(
    url: &str,
    policy: &str,
    count: usize,
    shared: bool,
) -> Result<Vec<Contender>> {
    let rule = Rule::new(CustomAlgorithm::new(Allowance));
    let limit = Arc::new(Limit::with_rule(policy, rule).map_err(|error| error.to_string())?);
    let open = || url.parse().and_then(Redis::open).map_err(|error| error.to_string());
    let common = open()?;
    let contender = |_| {
        let store = if shared { common.clone() } else { open()? };
        Ok(Contender { store, limit: Arc::clone(&limit) })
    };
    (0..count).map(contender).collect()
}

impl Caller for Contender {
    async fn call(&mut self) -> Result<Said> {
        let charges = [self.limit.charge("hot")];
        match self.store.admit(&Admission::of(&charges), CallContext::store_clock()).await {
            Ok(_) => Ok(Said::Decided),
            Err(error) if error.code() == Code::ConflictExhausted => Ok(Said::Undecided),
            Err(error) => Err(error.to_string()),
        }
    }
}
