//! The long-run rate is exact: after any number of steps, exactly as many units have passed as the
//! closed form says.

use core::time::Duration;

use tollgate_core::algorithm::Gcra;
use tollgate_core::{Cost, Micros, Now, Quota, Rule};

use crate::rng::Rng;

/// Asks greedily for single units, `steps` times, under `limit` per `period_us`, and compares every
/// time the key runs dry: admitted = B + ⌊(t − t₀)·L/P⌋. Returns the units admitted.
#[expect(
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a property panics when it does not hold"
)]
pub fn long_run_rate_is_exact(limit: u64, period_us: Micros, steps: u64) -> u128 {
    const START: Micros = 1_700_000_000_000_000;
    let quota = Quota::new(limit, Duration::from_micros(period_us));
    let burst = limit.clamp(2, 8);
    let rule = match Gcra::with_burst(quota, burst) {
        Ok(gcra) => Rule::new(gcra),
        Err(error) => panic!("{limit} per {period_us} µs is refused: {error}"),
    };
    let mut rng = Rng::new(limit ^ period_us);
    let (mut now, mut words, mut admitted) = (START, rule.step(&[], Now::at(START), Cost::ONE), 0);
    let mut words = words.write.take().map_or_else(Vec::new, |write| write.words.to_vec());
    admitted += u128::from(!words.is_empty());
    for step in 0..steps {
        let decided = rule.step(&words, Now::at(now), Cost::ONE);
        if let Some(write) = decided.write {
            words.clear();
            words.extend_from_slice(&write.words);
            admitted += 1;
            continue;
        }
        let refilled = u128::from(now - START) * u128::from(limit) / u128::from(period_us);
        let expected = u128::from(burst) + refilled;
        assert_eq!(admitted, expected, "{limit} per {period_us} µs drifts at step {step}");
        // Never long enough for the key to be full, which would lose units by right.
        now += rng.below(period_us / limit + 1) + 1;
    }
    admitted
}
