//! Two or three threads each. In every interleaving, each caller that waits is answered once, a
//! caller that is cancelled before its round was sent is not charged, and no wake-up is lost: a
//! thread that waits for ever is a deadlock, which loom reports.

use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

use loom::thread;

use super::*;
use crate::error::{Error, Result};
use crate::store::{CallContext, CallFacts};

/// Interleavings with more preemptions are too many to try.
const PREEMPTIONS: usize = 5;

const CALLERS: usize = 3;

type Answer = Result<usize>;

/// One queue, or the queues of keys, and what the backend was sent.
struct Model {
    queue: Arc<Combiner<usize, Answer>>,
    keys: Arc<KeyQueues<usize, Answer>>,
    /// How often each job was charged. The model does not watch it.
    charged: std::sync::Mutex<[u32; CALLERS]>,
}

/// Which queue a call waits in.
#[derive(Clone, Copy)]
enum Waits {
    Queue,
    Keys(&'static [&'static str]),
}

impl Model {
    fn new() -> Arc<Self> {
        let limits = Limits { waiting: CALLERS, round: CALLERS, concurrent: 1 };
        let queue = Combiner::new(1, limits);
        let keys = KeyQueues::new(CALLERS);
        Arc::new(Self { queue, keys, charged: std::sync::Mutex::default() })
    }

    fn charge(&self, job: usize) {
        self.charged.lock().unwrap()[job] += 1;
    }

    /// A round, with a moment before it is sent and a moment before its answer.
    async fn run<Q: Queues<usize, Answer>>(
        self: Arc<Self>,
        mut round: Round<usize, Answer, Q>,
        is_slow: bool,
    ) {
        if is_slow {
            moment().await;
        }
        round.mark_sent();
        let jobs: Vec<usize> = round.jobs().copied().collect();
        jobs.iter().for_each(|job| self.charge(*job));
        if is_slow {
            moment().await;
        }
        round.finish(jobs.into_iter().map(Ok));
    }

    async fn call(self: Arc<Self>, job: usize, way: Waits, is_slow: bool, facts: &CallFacts) {
        let cx = CallContext::at(0).with_facts(facts);
        let answer = match way {
            Waits::Queue => {
                let call = self.queue.submit(0, job, cx).unwrap();
                call.answer_or_lead(|lead| lead.run_here(|round| self.clone().run(round, is_slow)))
                    .await
            }
            Waits::Keys(keys) => {
                let call = self.keys.submit(keys, (job, true), cx);
                call.answer_or_lead(|lead| lead.run_here(|round| self.clone().run(round, is_slow)))
                    .await
            }
        };
        assert_eq!(answer.unwrap(), job);
    }

    /// A caller that waits for its answer.
    fn wait(self: &Arc<Self>, job: usize, way: Waits, is_slow: bool) {
        block_on(Arc::clone(self).call(job, way, is_slow, &CallFacts::new()));
    }

    /// A caller that is cancelled after this many polls. Whether it knows that nothing was sent.
    fn cancel(self: &Arc<Self>, job: usize, way: Waits, polls: usize) -> bool {
        let facts = CallFacts::new();
        {
            let waker = Waker::from(Arc::new(Thread::default()));
            let mut call = pin!(Arc::clone(self).call(job, way, true, &facts));
            for _ in 0..polls {
                if call.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                    return false;
                }
            }
        }
        facts.is_recorded() && facts.expired().is_not_sent()
    }

    /// All calls have ended.
    fn is_idle(&self) -> bool {
        let gate = self.queue.gate(0);
        gate.running() == 0 && !gate.is_awaited() && self.keys.busy() == 0
    }

    fn charged(&self) -> [u32; CALLERS] {
        *self.charged.lock().unwrap()
    }
}

/// A thread that waits for a future.
#[derive(Default)]
struct Thread {
    is_woken: loom::sync::Mutex<bool>,
    woken: loom::sync::Condvar,
}

impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        *self.is_woken.lock().unwrap() = true;
        self.woken.notify_one();
    }
}

fn block_on<F: Future>(call: F) -> F::Output {
    let thread = Arc::new(Thread::default());
    let waker = Waker::from(Arc::clone(&thread));
    let mut call = pin!(call);
    loop {
        if let Poll::Ready(done) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        let mut is_woken = thread.is_woken.lock().unwrap();
        while !*is_woken {
            is_woken = thread.woken.wait(is_woken).unwrap();
        }
        *is_woken = false;
    }
}

/// Pending once.
async fn moment() {
    let mut has_passed = false;
    core::future::poll_fn(|context| {
        if has_passed {
            return Poll::Ready(());
        }
        has_passed = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn explore(scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    let interleavings = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&interleavings);
    builder.check(move || {
        counted.fetch_add(1, SeqCst);
        scenario();
    });
    println!("{} interleavings", interleavings.load(SeqCst));
}

fn spawn<T: 'static>(
    model: &Arc<Model>,
    run: impl FnOnce(&Arc<Model>) -> T + 'static,
) -> thread::JoinHandle<T> {
    let model = Arc::clone(model);
    thread::spawn(move || run(&model))
}

#[test]
fn callers_that_lead_are_each_answered_once() {
    explore(|| {
        let model = Model::new();
        let other = spawn(&model, |model| model.wait(1, Waits::Queue, false));
        model.wait(0, Waits::Queue, false);
        other.join().unwrap();
        assert_eq!((model.charged(), model.is_idle()), ([1, 1, 0], true));
    });
}

#[test]
fn a_single_call_wakes_the_caller_that_waits_behind_it() {
    explore(|| {
        let model = Model::new();
        let single = spawn(&model, |model| match model.queue.try_enter(0) {
            Some(permit) => {
                model.charge(1);
                if let Some(lead) = permit.release() {
                    block_on(lead.run_all(|round| model.clone().run(round, false)));
                }
            }
            None => model.wait(1, Waits::Queue, false),
        });
        model.wait(0, Waits::Queue, false);
        single.join().unwrap();
        assert_eq!((model.charged(), model.is_idle()), ([1, 1, 0], true));
    });
}

#[test]
fn no_more_rounds_run_at_once_than_are_allowed() {
    explore(|| {
        let model = Model::new();
        let inside = Arc::new(AtomicUsize::new(0));
        let enter = |model: &Arc<Model>, inside: &AtomicUsize| {
            let Some(permit) = model.queue.try_enter(0) else { return };
            assert_eq!(inside.fetch_add(1, SeqCst), 0);
            thread::yield_now();
            inside.fetch_sub(1, SeqCst);
            drop(permit);
        };
        let other = spawn(&model, {
            let inside = Arc::clone(&inside);
            move |model| enter(model, &inside)
        });
        enter(&model, &inside);
        other.join().unwrap();
        assert!(model.is_idle());
    });
}

/// A caller is cancelled after `polls` polls, and another one waits.
fn cancel_beside_a_waiter(polls: usize, way: Waits, other: Waits) {
    explore(move || {
        let model = Model::new();
        let waiter = spawn(&model, move |model| model.wait(1, other, true));
        let is_not_sent = model.cancel(0, way, polls);
        waiter.join().unwrap();
        let [cancelled, answered, _] = model.charged();
        assert_eq!((answered, model.is_idle()), (1, true));
        assert!(cancelled <= u32::from(!is_not_sent), "a cancelled caller was charged");
    });
}

#[test]
fn a_caller_that_is_cancelled_in_the_queue_stops_no_other() {
    cancel_beside_a_waiter(1, Waits::Queue, Waits::Queue);
}

#[test]
fn a_leader_that_is_cancelled_after_its_round_was_sent_stops_no_other() {
    cancel_beside_a_waiter(2, Waits::Queue, Waits::Queue);
}

#[test]
fn callers_of_overlapping_keys_are_each_answered_once() {
    explore(|| {
        let model = Model::new();
        let other = spawn(&model, |model| model.wait(1, Waits::Keys(&["b", "a"]), false));
        model.wait(0, Waits::Keys(&["a", "b"]), false);
        other.join().unwrap();
        assert_eq!((model.charged(), model.is_idle()), ([1, 1, 0], true));
    });
}

#[test]
fn a_cancelled_caller_of_several_keys_stops_no_caller_of_one() {
    for polls in [1, 2] {
        cancel_beside_a_waiter(polls, Waits::Keys(&["a", "b"]), Waits::Keys(&["a"]));
    }
}

#[test]
fn a_cancelled_caller_of_one_key_stops_no_caller_that_shares_it() {
    for polls in [1, 2] {
        cancel_beside_a_waiter(polls, Waits::Keys(&["a"]), Waits::Keys(&["a"]));
    }
}

/// Serves a queue until it is closed.
async fn serve(model: &Arc<Model>, worker: Worker<usize, Answer>) {
    while let Some(round) = worker.next_round().await {
        model.clone().run(round, false).await;
    }
}

/// A caller of a queue that a worker serves: its answer.
fn answer(model: &Model, job: usize) -> Answer {
    let call = model.queue.submit(0, job, CallContext::at(0))?;
    block_on(call.answer())
}

#[test]
fn a_worker_answers_callers_until_the_queue_is_closed() {
    explore(|| {
        let model = Model::new();
        let worker = model.queue.worker(0);
        let serving = spawn(&model, move |model| block_on(serve(model, worker)));
        assert_eq!(answer(&model, 0).unwrap(), 0);
        model.queue.close();
        assert!(answer(&model, 1).is_err_and(|error| error.is_not_sent()));
        serving.join().unwrap();
        assert_eq!(model.charged(), [1, 0, 0]);
    });
}

#[test]
fn a_thread_answers_callers_until_the_queue_is_closed() {
    explore(|| {
        let model = Model::new();
        let worker = model.queue.worker(0);
        let serving = spawn(&model, move |model| {
            loop {
                match worker.next_round_blocking(None) {
                    Wakeup::Round(round) => block_on(model.clone().run(round, false)),
                    Wakeup::Closed => return,
                    Wakeup::Timeout => unreachable!("it has no limit"),
                }
            }
        });
        let closing = spawn(&model, |model| model.queue.close());
        let answered = answer(&model, 0);
        serving.join().unwrap();
        closing.join().unwrap();
        let is_charged = answered.is_ok();
        assert!(answered.map_or_else(|error: Error| error.is_not_sent(), |job| job == 0));
        assert_eq!(model.charged(), [u32::from(is_charged), 0, 0]);
    });
}

#[test]
fn a_worker_that_ends_leaves_no_caller_without_an_answer() {
    explore(|| {
        let model = Model::new();
        let worker = model.queue.worker(0);
        let ending = spawn(&model, move |_| {
            let round = worker.try_next_round();
            drop(worker);
            // Not sent: its waiters go back to a queue that has no worker any more.
            drop(round);
        });
        assert!(answer(&model, 0).is_err_and(|error| error.is_not_sent()));
        ending.join().unwrap();
        assert_eq!(model.charged(), [0, 0, 0]);
    });
}
