//! The clock over a counter and a wall clock that the tests move.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;

use super::following::{Following, TickSource};
use crate::time::Micros;

const START: Micros = 1_700_000_000_000_000;
const TICKS_PER_MICRO: u64 = 3_000;
const SECOND: Micros = 1_000_000;
const HOUR: Micros = 3_600 * SECOND;
/// What a clock may differ from the wall clock when nothing is set: far less than a millisecond.
const CLOSE: Micros = 50;

/// A counter and a wall clock that move as they are told.
#[derive(Debug, Default)]
struct World {
    ticks: AtomicU64,
    wall: AtomicU64,
}

impl TickSource for Arc<World> {
    fn ticks(&self) -> u64 {
        self.ticks.load(SeqCst)
    }

    fn wall(&self) -> Micros {
        self.wall.load(SeqCst)
    }
}

/// A clock, its world, and the last reading: a reading that goes back fails the test.
struct Watched {
    world: Arc<World>,
    clock: Following<Arc<World>>,
    last: Micros,
}

impl Watched {
    fn new() -> Self {
        let world: Arc<World> = Arc::default();
        world.wall.store(START, SeqCst);
        world.ticks.store(1 << 44, SeqCst);
        let clock = Following::new(Arc::clone(&world), micros_per_tick());
        Self { world, clock, last: START }
    }

    /// Lets time pass: by the counter, and by the wall clock, which runs faster by this number of
    /// parts per million million.
    fn pass(&self, time: Micros, parts: i128) {
        self.world.ticks.fetch_add(time * TICKS_PER_MICRO, SeqCst);
        let wall = i128::from(time) + i128::from(time) * parts / 1_000_000_000_000;
        self.world.wall.fetch_add(u64::try_from(wall).unwrap(), SeqCst);
    }

    fn read(&mut self) -> Micros {
        let now = self.clock.now();
        assert!(now >= self.last, "{now} after {}", self.last);
        self.last = now;
        now
    }

    fn wall(&self) -> Micros {
        self.world.wall.load(SeqCst)
    }

    /// Reads, and returns how far the clock is from the wall clock.
    fn offset(&mut self) -> Micros {
        self.read().abs_diff(self.wall())
    }
}

fn micros_per_tick() -> u64 {
    u64::try_from((1_u128 << 64) / u128::from(TICKS_PER_MICRO)).unwrap()
}

/// Pauses between readings, from a part of a second to several.
fn pauses() -> impl Iterator<Item = Micros> {
    let seed = 0x9E37_79B9_7F4A_7C15_u64;
    println!("seed {seed:#x}");
    core::iter::successors(Some(seed), |random| {
        let random = random ^ (random << 13);
        let random = random ^ (random >> 7);
        Some(random ^ (random << 17))
    })
    .map(|random| random % (7 * SECOND))
}

#[test]
fn a_counter_that_drifts_for_ninety_days_stays_with_the_wall_clock() {
    for parts in [200_000_000, -200_000_000] {
        let mut clock = Watched::new();
        for pause in pauses() {
            clock.pass(pause, parts);
            let offset = clock.offset();
            let passed = clock.wall() - START;
            // A pause at the pace of the calibration, until the drift is known.
            let accepted = if passed < 120 * SECOND { 1_500 } else { CLOSE };
            assert!(offset <= accepted, "{offset} µs after {} s", passed / SECOND);
            if passed > 90 * 24 * HOUR {
                break;
            }
        }
        assert_eq!(clock.clock.health().corrections, 0);
    }
}

#[test]
fn a_suspend_of_an_hour_is_corrected_within_a_second() {
    let mut clock = Watched::new();
    clock.pass(300 * SECOND, 0);
    assert!(clock.offset() <= CLOSE);
    clock.world.wall.fetch_add(HOUR, SeqCst);
    clock.pass(SECOND + SECOND / 100, 0);
    assert!(clock.offset() <= CLOSE);
    let health = clock.clock.health();
    assert_eq!((health.corrections, health.ahead), (1, 0));
    assert!(health.largest.abs_diff(HOUR) < SECOND && !health.is_out_of_bounds());
}

#[test]
fn a_counter_that_starts_over_in_a_suspend_is_corrected_at_once() {
    let mut clock = Watched::new();
    clock.pass(300 * SECOND, 0);
    clock.read();
    clock.world.wall.fetch_add(HOUR, SeqCst);
    clock.world.ticks.store(1 << 43, SeqCst);
    assert!(clock.offset() <= CLOSE);
    // The wall clock may be set back meanwhile: time goes on.
    clock.world.wall.fetch_sub(HOUR, SeqCst);
    clock.world.ticks.store(17, SeqCst);
    clock.read();
    clock.pass(SECOND / 2, 0);
    assert!(clock.read().abs_diff(clock.wall() + HOUR) < 2 * SECOND);
}

#[test]
fn a_step_back_of_an_hour_is_slewed() {
    let mut clock = Watched::new();
    clock.pass(300 * SECOND, 0);
    clock.read();
    clock.world.wall.fetch_sub(HOUR, SeqCst);
    let mut seconds = 0;
    loop {
        let before = clock.last;
        clock.pass(SECOND + SECOND / 100, 0);
        let passed = clock.read() - before;
        assert!(passed >= SECOND * 9 / 10, "{passed} µs in a second");
        let health = clock.clock.health();
        assert_eq!(health.corrections, 1);
        assert_eq!(health.is_out_of_bounds(), health.ahead > 10 * SECOND);
        seconds += 1;
        if clock.offset() <= CLOSE {
            break;
        }
    }
    // A tenth of the time, and the last second more gently.
    assert!((35_000..37_000).contains(&seconds), "{seconds} s");
}

#[test]
fn a_step_forward_is_followed_at_once() {
    let mut clock = Watched::new();
    clock.pass(300 * SECOND, 0);
    clock.read();
    clock.world.wall.fetch_add(2 * HOUR, SeqCst);
    clock.pass(SECOND + SECOND / 100, 0);
    assert!(clock.offset() <= CLOSE);
}

#[test]
fn a_leap_second_that_is_smeared_over_a_day_is_followed() {
    let mut clock = Watched::new();
    for parts in [0, -11_574_074, 0, 11_574_074, 0] {
        let end = clock.wall() + 24 * HOUR;
        for pause in pauses() {
            clock.pass(pause, parts);
            let offset = clock.offset();
            // The first pause after a change of pace is at the pace before.
            assert!(offset <= 2 * CLOSE, "{offset} µs while {parts} parts differ");
            if clock.wall() > end {
                break;
            }
        }
    }
}

#[test]
fn a_clock_that_was_not_read_for_a_day_is_right_at_the_first_reading() {
    let mut clock = Watched::new();
    clock.pass(24 * HOUR, 200_000_000);
    assert!(clock.offset() <= CLOSE);
}

/// A counter that moves with every reading, and a wall clock that stands still: each correction
/// finds the clock ahead, and slows it down.
#[derive(Debug, Default)]
struct Hurried(AtomicU64);

impl TickSource for Hurried {
    fn ticks(&self) -> u64 {
        self.0.fetch_add(TICKS_PER_MICRO * 40_000, SeqCst)
    }

    fn wall(&self) -> Micros {
        START
    }
}

#[test]
fn time_never_goes_back_from_thread_to_thread() {
    let clock = Following::new(Hurried::default(), micros_per_tick());
    let last = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    let before = last.load(SeqCst);
                    let now = clock.now();
                    assert!(now >= before, "{now} after {before}");
                    last.fetch_max(now, SeqCst);
                }
            });
        }
    });
    assert!(clock.health().ahead > HOUR, "it was slewed all the time");
}
