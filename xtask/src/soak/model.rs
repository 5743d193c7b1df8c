//! A long run of every algorithm against the reference model, with a new seed each time.

use std::hash::{BuildHasher, RandomState};

use tollgate_core::{Clock, SystemClock};
use tollgate_testkit::check;
use tollgate_testkit::model::Kind;

use crate::run::TaskResult;

/// Steps per algorithm by default.
pub(super) const DEFAULT_STEPS: u64 = 10_000_000;

/// Panics, naming the seed and the step, at the first difference.
pub(super) fn soak(steps: u64) -> TaskResult {
    let seed = RandomState::new().hash_one("soak");
    let clock = SystemClock::new();
    println!("{steps} steps per algorithm, seed {seed:#x}");
    for kind in Kind::ALL {
        let start = clock.now();
        let tally = check::soak(kind, seed, steps, |done| {
            println!("{}: {done} steps, {} s", kind.name(), (clock.now() - start) / 1_000_000);
        });
        println!("{}: agrees with the model: {tally:?}", kind.name());
    }
    Ok(())
}
