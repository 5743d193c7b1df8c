//! You learn: an algorithm of your own is one pure function and a few integers of state, and runs
//! on every store: here in memory, and on a backend that can only compare and swap.
//!
//! Run it: `cargo run -p tollgate-examples --example custom_algorithm`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tollgate::algorithm::{Custom, CustomAlgorithm, CustomStep};
use tollgate::authoring::Now;
use tollgate::store::{Cas, Memory, Store};
use tollgate::{Cost, Decision, Limit, Limiter, ManualClock, Micros, Result};
use tollgate_examples::Table;
use tollgate_testkit::runtime::block_on;

const SECOND: Micros = 1_000_000;

/// Log-in attempts: one at a time, and the pause after each is twice the one before. A key
/// without attempts for as long as `forget` starts afresh.
#[derive(Debug)]
struct Doubling {
    first_pause: Micros,
    forget: Micros,
}

impl Custom for Doubling {
    /// The last attempt, and how many there were in a row.
    type State = [u64; 2];
    const NAME: &'static str = "doubling";

    fn parameters(&self) -> [u64; 3] {
        [self.first_pause, self.forget, 0]
    }

    fn ceiling(&self) -> u64 {
        1
    }

    fn horizon(&self) -> Micros {
        self.forget
    }

    fn encode(&self, state: &[u64; 2]) -> Vec<u64> {
        state.to_vec()
    }

    fn decode(&self, words: &[u64]) -> Option<[u64; 2]> {
        words.try_into().ok().filter(|[_, count]: &[u64; 2]| *count > 0)
    }

    fn step(&self, state: Option<&[u64; 2]>, now: Now, cost: Cost) -> CustomStep<[u64; 2]> {
        // Decide at the later of the clock and the last attempt: time never goes back for a key.
        let at = now.effective().max(state.map_or(0, |[last, _]| *last));
        let known = state.filter(|[last, _]| at < last + self.forget);
        let (count, free_at) = known.map_or((0, at), |&[last, count]| {
            let pause = self.first_pause.saturating_mul(1 << (count - 1).min(30));
            (count, last + pause.min(self.forget))
        });
        // Waits count from the real reading; what is reported is rounded up to milliseconds.
        let ms = |micros: Micros| micros.div_ceil(1_000);
        let reset = ms(known.map_or(now.reading(), |[last, _]| last + self.forget));
        let left = u64::from(at >= free_at);
        let decision = match left {
            _ if cost > Cost::ONE => Decision::never(1, left, reset),
            0 => Decision::denied(1, 0, reset, ms(free_at - now.reading())),
            _ => Decision::allowed(1, 0, ms(at + self.forget)),
        };
        let next = ([at, count + 1], at + self.forget);
        CustomStep { next: decision.is_allowed().then_some(next), decision }
    }
}

/// How long each of five attempts had to wait, in seconds.
fn pauses(store: impl Store, clock: &ManualClock) -> Result<Vec<u64>> {
    let doubling = Doubling { first_pause: SECOND, forget: 60 * SECOND };
    let limit = Limit::new("log-in", CustomAlgorithm::new(doubling))?;
    let limiter = Limiter::with_clock(store, clock.clone()).build();
    let wait = |_| {
        let wait_ms = block_on(limiter.check(limit.charge("ada")))?.retry_after_ms.unwrap_or(0);
        clock.advance(std::time::Duration::from_millis(wait_ms));
        // `retry_after` is exact: the request passes now.
        assert!(wait_ms == 0 || block_on(limiter.check(limit.charge("ada")))?.is_allowed());
        Ok(wait_ms / 1_000)
    };
    (0..5).map(wait).collect()
}

fn main() -> Result<()> {
    let clock = ManualClock::at(1_700_000_000 * SECOND);
    let in_memory = pauses(Memory::new(), &clock)?;
    let compare_and_swap = pauses(Cas::new(Table::default()), &clock)?;
    println!(
        "pauses in seconds: {in_memory:?} in memory, {compare_and_swap:?} by compare-and-swap"
    );
    assert_eq!(in_memory, [0, 1, 2, 4, 8]);
    assert_eq!(in_memory, compare_and_swap);
    Ok(())
}

#[test]
fn runs_the_same_on_both_stores() {
    main().unwrap();
}
