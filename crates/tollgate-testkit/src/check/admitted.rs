//! Never more than one clock would admit: several nodes with skewed, stepping clocks share a key.

use tollgate_core::{Cost, Micros, Now, Rule};

use crate::model::{Bound, Kind, ModelQuota};
use crate::rng::Rng;
use crate::trace::random_quota;

/// Lets nodes with arbitrary clocks ask greedily on `keys` keys and checks, after every admission,
/// that no more was admitted than one clock could have admitted that reads what the most advanced
/// one read.
///
/// # Panics
/// When the property does not hold, naming the seed.
pub fn never_over_admits(kind: Kind, seed: u64, keys: u64) {
    let mut rng = Rng::new(seed);
    for _ in 0..keys {
        let quota = random_quota(kind, &mut rng);
        if let Ok(rule) = quota.rule() {
            run_key(&quota, &rule, &mut rng, seed);
        }
    }
}

fn run_key(quota: &ModelQuota, rule: &Rule, rng: &mut Rng, seed: u64) {
    let horizon = rule.horizon().clamp(1, 1 << 48);
    let base = 1_700_000_000_000_000;
    let mut time: Micros = base;
    let mut words = Vec::new();
    let mut ledger = Ledger::default();
    for _ in 0..200 {
        // Forward a little, or anywhere within two horizons around the base: steps back included.
        time = match rng.below(4) {
            0 => time + rng.below(horizon / 8 + 2),
            1 => base - horizon + rng.below(3 * horizon),
            _ => time,
        };
        let most = rule.ceiling().min(Cost::MAX.get());
        let cost = Cost::new(rng.of_any_size(most)).unwrap_or(Cost::ONE);
        let step = rule.step(&words, Now::at(time), cost);
        if let Some(write) = step.write {
            words = write.words.to_vec();
            ledger.admit(time, cost.get());
            let excess = ledger.excess(quota);
            assert!(excess.is_none(), "{excess:?} under {quota:?}, seed {seed:#x}: {ledger:?}");
        }
    }
}

/// What was admitted, each at the most advanced reading so far among the admitted ones.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Vec<(Micros, u64)>);

impl Ledger {
    pub(crate) fn admit(&mut self, reading: Micros, units: u64) {
        let newest = self.0.last().map_or(0, |(at, _)| *at);
        self.0.push((reading.max(newest), units));
    }

    pub(crate) fn total(&self) -> u128 {
        self.since(0)
    }

    fn since(&self, instant: Micros) -> u128 {
        let counted = self.0.iter().filter(|(at, _)| *at >= instant);
        counted.map(|(_, units)| u128::from(*units)).sum()
    }

    /// Units admitted and units that could have been, if the former exceed the latter.
    pub(crate) fn excess(&self, quota: &ModelQuota) -> Option<(u128, u128)> {
        let Bound { since, most } = quota.bound(self.0.first()?.0, self.0.last()?.0);
        let admitted = self.since(since);
        (admitted > most).then_some((admitted, most))
    }
}
