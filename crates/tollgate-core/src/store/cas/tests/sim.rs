//! A deterministic executor: polls one woken future at a time, in an order drawn from a seed.
//!
//! Only futures that were woken are polled, so a lost wake-up is a hang, and a hang is a failure.

use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;

use crate::clock::ManualClock;

/// Polls per future that no schedule needs.
const POLLS_MAX: usize = 5_000;
/// How often the clock may move on while all tasks wait for it.
const IDLE_MAX: usize = 10_000;

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Task<'a, T> {
    future: Option<Pin<Box<dyn Future<Output = T> + 'a>>>,
    output: Option<T>,
    woken: Arc<Flag>,
    polls: usize,
}

/// Futures under a scheduler.
pub(crate) struct Sim<'a, T> {
    tasks: Vec<Task<'a, T>>,
    random: Option<Random>,
    clock: ManualClock,
    /// How often the clock had to move because all tasks waited for it.
    pub(crate) idle: usize,
}

impl<'a, T> Sim<'a, T> {
    /// Picks the next future at random.
    pub(crate) fn seeded(seed: u64, clock: &ManualClock) -> Self {
        Self {
            tasks: Vec::new(),
            random: Some(Random::seeded(seed)),
            clock: clock.clone(),
            idle: 0,
        }
    }

    /// Picks the first future that was woken.
    pub(crate) fn in_order(clock: &ManualClock) -> Self {
        Self { random: None, ..Self::seeded(0, clock) }
    }

    pub(crate) fn spawn(&mut self, future: impl Future<Output = T> + 'a) -> usize {
        self.tasks.push(Task {
            future: Some(Box::pin(future)),
            output: None,
            woken: Arc::new(Flag(AtomicBool::new(true))),
            polls: 0,
        });
        self.tasks.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Polls one woken future: which.
    pub(crate) fn step(&mut self) -> Option<usize> {
        let ready: Vec<usize> =
            (0..self.tasks.len()).filter(|&index| self.is_ready(index)).collect();
        let pick = match &mut self.random {
            Some(random) if !ready.is_empty() => ready[random.below(ready.len())],
            _ => *ready.first()?,
        };
        self.poll(pick);
        Some(pick)
    }

    /// Polls a future whether it was woken or not.
    pub(crate) fn poll(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        task.woken.0.store(false, Ordering::SeqCst);
        task.polls += 1;
        assert!(task.polls < POLLS_MAX, "a future never completes");
        let waker = Waker::from(Arc::clone(&task.woken));
        let future = task.future.as_mut().unwrap();
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            task.output = Some(output);
            task.future = None;
        }
    }

    pub(crate) fn drop_task(&mut self, index: usize) {
        self.tasks[index].future = None;
    }

    pub(crate) fn is_alive(&self, index: usize) -> bool {
        self.tasks[index].future.is_some()
    }

    pub(crate) fn alive(&self) -> Vec<usize> {
        (0..self.tasks.len()).filter(|&index| self.is_alive(index)).collect()
    }

    /// Polls once if a task is awake, else moves the clock. `false` when all have completed.
    pub(crate) fn turn(&mut self) -> bool {
        if self.alive().is_empty() {
            return false;
        }
        if self.step().is_none() {
            self.idle += 1;
            assert!(self.idle < IDLE_MAX, "all tasks wait: a hang");
            self.clock.advance(Duration::from_millis(1));
        }
        true
    }

    /// Runs all to completion: the output of each, `None` for those that were dropped.
    pub(crate) fn run(mut self) -> Vec<Option<T>> {
        while self.turn() {}
        self.into_outputs()
    }

    pub(crate) fn into_outputs(self) -> Vec<Option<T>> {
        self.tasks.into_iter().map(|task| task.output).collect()
    }

    fn is_ready(&self, index: usize) -> bool {
        self.is_alive(index) && self.tasks[index].woken.0.load(Ordering::SeqCst)
    }
}

/// Runs one future that never has to wait for anything but its own yields.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let woken = Arc::new(Flag::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut future = pin!(future);
    for _ in 0..POLLS_MAX {
        woken.0.store(false, Ordering::SeqCst);
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        assert!(woken.0.load(Ordering::SeqCst), "nothing will wake this");
    }
    panic!("a future never completes");
}
