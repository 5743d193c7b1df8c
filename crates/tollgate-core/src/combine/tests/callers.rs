//! Queues that their callers lead: alone, in rounds, over fixed queues and over keys.

use core::cell::Cell;
use std::sync::Mutex;

use super::*;
use crate::clock::{Clock as _, ManualClock, sleep_until};

/// A backend that answers when its clock moves, and adds up what was sent to it.
#[derive(Clone, Default)]
struct Backend {
    clock: ManualClock,
    rounds: Arc<Mutex<Vec<Vec<u64>>>>,
}

impl Backend {
    async fn run<Q: Queues<u64, Answer>>(self, mut round: Round<u64, Answer, Q>) {
        // A read, and then a write.
        sleep_until(&self.clock, self.clock.now() + 1).await;
        round.mark_sent();
        self.rounds.lock().unwrap().push(jobs(&round));
        sleep_until(&self.clock, self.clock.now() + 1).await;
        let answers: Vec<Answer> = round.jobs().copied().map(Ok).collect();
        round.finish(answers);
    }

    fn step(&self) {
        self.clock.advance(core::time::Duration::from_micros(1));
    }

    fn sent(&self) -> Vec<Vec<u64>> {
        self.rounds.lock().unwrap().clone()
    }
}

type Call<'a> = Pin<Box<dyn Future<Output = Answer> + 'a>>;

fn call<'a>(combiner: &'a Arc<Sum>, backend: &'a Backend, job: u64) -> Call<'a> {
    call_within(combiner, backend, (job, NOW))
}

fn call_within<'a>(
    combiner: &'a Arc<Sum>,
    backend: &'a Backend,
    (job, cx): (u64, CallContext<'a>),
) -> Call<'a> {
    let call = combiner.submit(0, job, cx).unwrap();
    Box::pin(call.answer_or_lead(|lead| lead.run_here(|round| backend.clone().run(round))))
}

fn poll_all(calls: &mut [Option<Call<'_>>]) -> Vec<Option<u64>> {
    let done = calls.iter_mut().map(|slot| {
        let polled = poll(slot.as_mut()?.as_mut());
        match polled {
            Poll::Ready(answer) => {
                *slot = None;
                Some(answer.unwrap())
            }
            Poll::Pending => None,
        }
    });
    done.collect()
}

#[test]
fn a_lone_call_takes_no_lock_and_lets_the_first_waiter_lead() {
    let combiner = Sum::new(3, LIMITS);
    let backend = Backend::default();
    let permit = combiner.try_enter(0).unwrap();
    assert!(combiner.try_enter(0).is_none() && combiner.try_enter(1).is_some());
    let mut waiting = call(&combiner, &backend, 1);
    assert!(poll(waiting.as_mut()).is_pending());
    permit.answered_after(|| 1);
    assert_eq!(Queues::answered(&*combiner, &0), 1, "for the one that waits");
    drop(permit);
    assert!(combiner.try_enter(0).is_none(), "nothing overtakes a waiter");
    for _ in 0..3 {
        assert!(backend.sent().len() < 2);
        let _ = poll(waiting.as_mut()).is_ready();
        backend.step();
    }
    drop(waiting);
    assert_eq!(backend.sent(), [[1]]);
    assert!(combiner.try_enter(0).is_some());
}

#[test]
fn a_permit_hands_the_next_round_to_a_task() {
    let combiner = Sum::new(1, LIMITS);
    let backend = Backend::default();
    let permit = combiner.try_enter(0).unwrap();
    let mut calls: Vec<_> = (0..6).map(|job| Some(call(&combiner, &backend, job))).collect();
    poll_all(&mut calls);
    let lead = permit.release().unwrap();
    assert_eq!((lead.len(), lead.is_empty()), (4, false));
    let mut task = Box::pin(lead.run_all(|round| backend.clone().run(round)));
    let (mut answers, mut is_done) = (0, false);
    for _ in 0..20 {
        is_done = is_done || poll(task.as_mut()).is_ready();
        answers += poll_all(&mut calls).into_iter().flatten().count();
        backend.step();
    }
    assert_eq!((answers, is_done, backend.sent()), (6, true, vec![vec![0, 1, 2, 3], vec![4, 5]]));
}

#[test]
fn a_task_runs_the_rounds_of_callers_that_are_not_polled() {
    let combiner = Sum::new(1, LIMITS);
    let backend = Backend::default();
    let permit = combiner.try_enter(0).unwrap();
    let mut calls: Vec<_> = (0..6).map(|job| Some(call(&combiner, &backend, job))).collect();
    poll_all(&mut calls);
    let lead = permit.release().unwrap();
    let mut task = Box::pin(lead.run_all(|round| backend.clone().run(round)));
    while poll(task.as_mut()).is_pending() {
        backend.step();
    }
    assert_eq!(backend.sent(), [vec![0, 1, 2, 3], vec![4, 5]]);
}

#[test]
fn the_first_waiter_that_was_not_cancelled_is_woken_to_lead() {
    let combiner = Sum::new(1, LIMITS);
    let backend = Backend::default();
    let permit = combiner.try_enter(0).unwrap();
    let cancelled = call(&combiner, &backend, 1);
    let (mut waiting, woken) = (call(&combiner, &backend, 2), Arc::<Woken>::default());
    let waker = Arc::clone(&woken).into();
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(cancelled);
    drop(permit);
    assert!(woken.0.load(Relaxed) > 0);
}

#[test]
fn a_small_round_does_not_run_beside_a_large_one() {
    let combiner = Sum::new(1, Limits { waiting: 100, round: 50, concurrent: 2 });
    let backend = Backend::default();
    let (a, b) = (combiner.try_enter(0).unwrap(), combiner.try_enter(0).unwrap());
    let mut calls: Vec<_> = (0..20).map(|job| Some(call(&combiner, &backend, job))).collect();
    poll_all(&mut calls);
    let large = a.release().unwrap();
    assert_eq!(large.len(), 20);
    drop(b);
    let mut few: Vec<_> = (0..9).map(|job| Some(call(&combiner, &backend, job))).collect();
    poll_all(&mut few);
    assert_eq!(combiner.gate(0).running(), 1, "nine are not half of twenty");
    let mut one_more = [Some(call(&combiner, &backend, 9))];
    poll_all(&mut one_more);
    assert_eq!(combiner.gate(0).running(), 2);
    drop(large);
    drop((few, one_more, calls));
    assert_eq!((combiner.gate(0).running(), combiner.gate(0).is_awaited()), (0, false));
}

/// Rounds take 60 of the 100 microseconds that callers have: one that waited for the end of another
/// round would be too late.
#[test]
fn callers_without_the_time_to_wait_share_a_round_beside_those_under_way() {
    let combiner = Sum::new(1, Limits { waiting: 100, round: 50, concurrent: 1 });
    let (backend, clock) = (Backend::default(), ManualClock::at(0));
    let cx = NOW.with_deadline(&clock, 100);
    for _ in 0..2 {
        assert!(!combiner.is_slow_for(0, cx), "two rounds were not measured");
        let permit = combiner.try_enter(0).unwrap();
        let waits = call(&combiner, &backend, 0);
        permit.answered_after(|| 60);
        drop((waits, permit));
    }
    assert!(combiner.is_slow_for(0, cx));
    assert!(!combiner.is_slow_for(0, NOW.with_deadline(&clock, 150)), "it can wait for a round");
    let under_way = combiner.try_enter(0).unwrap();
    let mut calls: Vec<_> =
        (1..=8).map(|job| Some(call_within(&combiner, &backend, (job, cx)))).collect();
    poll_all(&mut calls);
    assert_eq!(combiner.gate(0).running(), 1, "the first leaves the others the time to join");
    poll_all(&mut calls);
    assert_eq!(combiner.gate(0).running(), 2, "all of them in one round");
    // Those that come later do not wait for that one either.
    calls.push(Some(call_within(&combiner, &backend, (9, cx))));
    poll_all(&mut calls);
    poll_all(&mut calls);
    assert_eq!(combiner.gate(0).running(), 3);
    let mut answers = 0;
    for _ in 0..4 {
        backend.step();
        answers += poll_all(&mut calls).into_iter().flatten().count();
    }
    assert_eq!((answers, backend.sent()), (9, vec![(1..=8).collect(), vec![9]]));
    drop(under_way);
    assert_eq!((combiner.gate(0).running(), combiner.gate(0).is_awaited()), (0, false));
}

#[test]
fn a_large_round_that_ends_leaves_the_gate_to_the_other_one() {
    let combiner = Sum::new(1, Limits { waiting: 100, round: 20, concurrent: 2 });
    let backend = Backend::default();
    let (a, b) = (combiner.try_enter(0).unwrap(), combiner.try_enter(0).unwrap());
    let mut calls: Vec<_> = (0..30).map(|job| Some(call(&combiner, &backend, job))).collect();
    poll_all(&mut calls);
    let (first, second) = (a.release().unwrap(), b.release().unwrap());
    assert_eq!((first.len(), second.len()), (20, 10));
    let mut task = Box::pin(first.run_all(|round| backend.clone().run(round)));
    while poll(task.as_mut()).is_pending() {
        backend.step();
    }
    assert_eq!(combiner.gate(0).running(), 1);
    assert!(combiner.try_enter(0).is_none(), "a single call runs beside a large round");
    let mut task = Box::pin(second.run_all(|round| backend.clone().run(round)));
    while poll(task.as_mut()).is_pending() {
        backend.step();
    }
    assert!(combiner.try_enter(0).is_some());
}

#[test]
fn after_a_large_round_a_single_caller_leads_beside_another_one() {
    let combiner = Sum::new(1, Limits { waiting: 100, round: 20, concurrent: 2 });
    let backend = Backend::default();
    let (a, b) = (combiner.try_enter(0).unwrap(), combiner.try_enter(0).unwrap());
    let mut calls: Vec<_> = (0..20).map(|job| Some(call(&combiner, &backend, job))).collect();
    poll_all(&mut calls);
    let large = a.release().unwrap();
    drop(b);
    let mut task = Box::pin(large.run_all(|round| backend.clone().run(round)));
    while poll(task.as_mut()).is_pending() {
        backend.step();
    }
    let _permit = combiner.try_enter(0).unwrap();
    let mut one = call(&combiner, &backend, 20);
    assert!(poll(one.as_mut()).is_pending());
    assert_eq!(combiner.gate(0).running(), 2);
}

#[test]
fn a_round_that_takes_all_waiters_lets_single_calls_enter() {
    let combiner = Sum::new(1, Limits { concurrent: 2, ..LIMITS });
    let backend = Backend::default();
    let (a, b) = (combiner.try_enter(0).unwrap(), combiner.try_enter(0).unwrap());
    let mut waiting = call(&combiner, &backend, 1);
    assert!(poll(waiting.as_mut()).is_pending());
    drop(a);
    assert!(poll(waiting.as_mut()).is_pending() && combiner.gate(0).running() == 2);
    drop(b);
    assert!(combiner.try_enter(0).is_some());
}

#[test]
fn late_arrivals_wait_until_a_round_takes_them() {
    let combiner = Sum::new(1, LIMITS);
    let worker = combiner.worker(0);
    let submit = |jobs: core::ops::Range<u64>| -> Vec<_> {
        jobs.map(|job| combiner.submit(0, job, NOW).unwrap()).collect()
    };
    let first = submit(0..1);
    let mut round = worker.try_next_round().unwrap();
    let late = submit(1..6);
    round.take_late_arrivals();
    assert_eq!((jobs(&round), combiner.gate(0).is_awaited()), (vec![0, 1, 2, 3], true));
    let mut rest = worker.try_next_round().unwrap();
    let last = submit(6..7);
    rest.take_late_arrivals();
    assert_eq!((jobs(&rest), combiner.gate(0).is_awaited()), (vec![4, 5, 6], false));
    drop((first, late, last));
}

/// Cancels one caller after each number of steps: all others are answered exactly once, by rounds
/// that were sent once.
fn cancel_anywhere(start: impl for<'a> Fn(&'a Backend, u64) -> Call<'a>) -> usize {
    let mut points = 0;
    for victim in 0..5 {
        for steps in 0..14 {
            let backend = Backend::default();
            let mut calls: Vec<_> = (0..5).map(|job| Some(start(&backend, job))).collect();
            let mut answers: Vec<Option<u64>> = vec![None; 5];
            for step in 0..14 {
                for (index, answer) in poll_all(&mut calls).into_iter().enumerate() {
                    assert!(answer.is_none() || answers[index].is_none(), "answered twice");
                    answers[index] = answers[index].or(answer);
                }
                if step == steps {
                    points += usize::from(calls[victim].take().is_some());
                }
                backend.step();
            }
            let sent: Vec<u64> = backend.sent().into_iter().flatten().collect();
            for (job, answer) in answers.into_iter().enumerate() {
                let times = sent.iter().filter(|sent| **sent == job as u64).count();
                assert!(times <= 1, "{job} was sent {times} times: victim {victim}, step {steps}");
                if job != victim {
                    assert_eq!(answer, Some(job as u64), "victim {victim}, step {steps}");
                }
            }
        }
    }
    points
}

#[test]
fn a_caller_that_is_cancelled_anywhere_affects_no_other() {
    let points = Cell::new(0);
    let combiner = Sum::new(1, LIMITS);
    points.set(
        points.get() + {
            let combiner: &'static Arc<Sum> = Box::leak(Box::new(combiner));
            cancel_anywhere(move |backend, job| call(combiner, backend, job))
        },
    );
    let keys: &'static Arc<KeyQueues<u64, Answer>> = Box::leak(Box::new(KeyQueues::new(4)));
    points.set(
        points.get()
            + cancel_anywhere(move |backend, job| {
                let needs: &[&str] = if job == 2 { &["a", "b"] } else { &["a"] };
                let call = keys.submit(needs, (job, true), NOW);
                Box::pin(
                    call.answer_or_lead(|lead| lead.run_here(|round| backend.clone().run(round))),
                )
            }),
    );
    assert_eq!(keys.busy(), 0);
    assert!(points.get() > 30, "{points:?}");
}

/// The first round is dropped before it is sent: its caller is at the front of its key again.
#[test]
fn a_round_of_a_key_that_was_not_sent_is_led_again() {
    let keys = KeyQueues::<u64, Answer>::new(4);
    let backend = Backend::default();
    let mut rounds = 0;
    let mut calls: Vec<Option<Call<'_>>> = Vec::new();
    let start = |job| keys.submit(&["a"], (job, true), NOW);
    let (first, second) = (start(1), start(2));
    calls.push(Some(Box::pin(first.answer_or_lead(|lead| {
        rounds += 1;
        let (is_first, backend) = (rounds == 1, backend.clone());
        lead.run_here(|round| async move {
            if is_first {
                drop(round);
            } else {
                backend.run(round).await;
            }
        })
    }))));
    calls.push(Some(Box::pin(
        second.answer_or_lead(|lead| lead.run_here(|round| backend.clone().run(round))),
    )));
    assert_eq!(keys.busy(), 1);
    for _ in 0..10 {
        poll_all(&mut calls);
        backend.step();
    }
    assert!(calls.iter().all(Option::is_none));
    assert_eq!((keys.busy(), backend.sent()), (0, vec![vec![1, 2]]));
}

#[test]
fn callers_of_several_keys_are_alone_and_are_not_overtaken() {
    let keys = KeyQueues::<u64, Answer>::new(10);
    let backend = Backend::default();
    let start = |needs: &[&str], job| -> Option<Call<'_>> {
        let call = keys.submit(needs, (job, true), NOW);
        let backend = backend.clone();
        Some(Box::pin(call.answer_or_lead(move |lead| {
            let backend = backend.clone();
            lead.run_here(|round| backend.run(round))
        })))
    };
    let mut calls = vec![
        start(&["a"], 0),
        start(&["a"], 1),
        start(&["b"], 2),
        start(&["a", "b"], 3),
        start(&["a"], 4),
        start(&["b"], 5),
        start(&["c"], 6),
    ];
    for _ in 0..20 {
        poll_all(&mut calls);
        backend.step();
    }
    assert!(calls.iter().all(Option::is_none) && keys.busy() == 0);
    let mut sent = backend.sent();
    sent[..3].sort();
    sent[4..].sort();
    assert_eq!(sent, [vec![0, 1], vec![2], vec![6], vec![3], vec![4], vec![5]]);
}
