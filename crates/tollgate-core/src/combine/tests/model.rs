//! Every interleaving of lone calls and waiters at a gate, under the loom model checker.
//!
//! The gate is the one that the combiner uses; its queue is reduced to a count under a lock, with
//! the critical sections of `submit`, `lead` and `end`.

use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::super::gate::{AtomicByte, Gate};

/// Interleavings with more preemptions are too many to try.
const PREEMPTIONS: usize = 3;

impl AtomicByte for AtomicU8 {
    fn load(&self) -> u8 {
        self.load(Ordering::Acquire)
    }

    fn update(&self, to: impl FnMut(u8) -> Option<u8>) -> bool {
        self.fetch_update(Ordering::AcqRel, Ordering::Acquire, to).is_ok()
    }
}

struct Queue {
    gate: Gate<AtomicU8>,
    state: Mutex<State>,
    /// Calls and rounds inside of the gate.
    inside: AtomicUsize,
}

#[derive(Default)]
struct State {
    waiting: usize,
    /// How often the first waiter was woken to lead.
    wakes: usize,
}

impl Queue {
    fn new() -> Arc<Self> {
        let gate = Gate(AtomicU8::new(0));
        Arc::new(Self { gate, state: Mutex::default(), inside: AtomicUsize::new(0) })
    }

    fn run(&self, concurrent: u8) {
        let others = self.inside.fetch_add(1, Ordering::SeqCst);
        assert!(others < usize::from(concurrent), "too many at once");
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// `Combiner::try_enter`, and the drop of its permit.
    fn call_alone(&self, concurrent: u8) -> bool {
        if !self.gate.try_enter(concurrent) {
            return false;
        }
        self.run(concurrent);
        self.end();
        true
    }

    /// `Queues::end`.
    fn end(&self) {
        if self.gate.try_leave() {
            return;
        }
        let mut state = self.state.lock().unwrap();
        self.gate.leave();
        state.wakes += usize::from(state.waiting > 0);
    }

    /// `Combiner::submit`.
    fn submit(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.gate.set_awaited(true);
    }

    /// `Queues::lead`, and the round: how many were in it.
    fn lead(&self, concurrent: u8) -> usize {
        let mut state = self.state.lock().unwrap();
        if self.gate.running() >= concurrent {
            return 0;
        }
        self.gate.enter();
        let round = core::mem::take(&mut state.waiting);
        self.gate.set_awaited(false);
        if round == 0 {
            self.gate.leave();
            return 0;
        }
        drop(state);
        self.run(concurrent);
        self.end();
        round
    }
}

fn explore(scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(scenario);
}

#[test]
fn a_waiter_leads_or_is_woken_and_no_more_run_than_are_allowed() {
    explore(|| {
        let queue = Queue::new();
        let lone = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.call_alone(1))
        };
        queue.submit();
        let led = queue.lead(1);
        lone.join().unwrap();
        let state = queue.state.lock().unwrap();
        assert!(led == 1 || state.wakes > 0, "the waiter waits for ever");
        assert_eq!((queue.gate.running(), state.waiting), (0, 1 - led));
        assert_eq!(queue.gate.is_awaited(), led == 0, "the gate forgot the waiter");
    });
}

#[test]
fn two_leaders_and_a_lone_call_share_a_gate() {
    explore(|| {
        let queue = Queue::new();
        queue.submit();
        let threads = [0, 1].map(|thread| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                if thread == 0 { queue.lead(1) } else { usize::from(queue.call_alone(1)) }
            })
        });
        let led = queue.lead(1);
        let [other, _] = threads.map(|thread| thread.join().unwrap());
        assert!(led + other <= 1, "one round for one waiter");
        let state = queue.state.lock().unwrap();
        assert!(led + other == 1 || state.wakes > 0, "the waiter waits for ever");
        assert_eq!(queue.gate.running(), 0);
    });
}
