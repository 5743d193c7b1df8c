//! Queues that a worker serves.

use core::time::Duration;
use std::thread;

use super::*;
use crate::clock::ManualClock;
use crate::store::Owner;

fn combiner() -> (Arc<Sum>, Worker<u64, Answer>) {
    let combiner = Sum::new(1, LIMITS);
    let worker = combiner.worker(0);
    (combiner, worker)
}

#[test]
fn rounds_are_taken_in_order_and_bounded() {
    let (combiner, worker) = combiner();
    let calls: Vec<_> = (0..6).map(|job| combiner.submit(0, job, NOW).unwrap()).collect();
    let mut first = worker.try_next_round().unwrap();
    assert_eq!((jobs(&first), worker.waiting()), (vec![0, 1, 2, 3], 2));
    let mut second = answer(worker.next_round()).unwrap();
    assert!(worker.try_next_round().is_none());
    second.finish([Ok(4), Ok(5)]);
    first.finish((0..4).map(Ok));
    let answers: Vec<u64> = calls.into_iter().map(|call| answer(call.answer()).unwrap()).collect();
    assert_eq!(answers, [0, 1, 2, 3, 4, 5]);
}

/// Jobs below 100 belong to one policy, the others to another.
#[test]
fn a_round_with_few_places_is_shared_and_the_others_keep_their_order() {
    let limits = Limits { round: 100, ..LIMITS };
    let combiner = Sum::new(1, limits);
    let worker = combiner.worker(0);
    let owner = |job: &u64| Owner { policy: job / 100, key: *job };
    let flood = 0..7;
    let calls: Vec<_> =
        flood.chain([100]).map(|job| combiner.submit(0, job, NOW).unwrap()).collect();
    let mut round = worker.try_next_round().unwrap();
    round.keep_fairly(3, owner);
    assert_eq!((jobs(&round), worker.waiting()), (vec![0, 1, 100], 5));
    round.mark_sent();
    round.keep_fairly(1, owner);
    assert_eq!(round.len(), 3, "it was sent");
    round.finish([Ok(0), Ok(1), Ok(100)]);
    let late = combiner.submit(0, 101, NOW).unwrap();
    let mut round = worker.try_next_round().unwrap();
    round.keep_fairly(6, owner);
    assert_eq!(jobs(&round), [2, 3, 4, 5, 6, 101], "there is a place for each");
    round.finish([2, 3, 4, 5, 6, 101].map(Ok));
    let answers: Vec<u64> = calls.into_iter().map(|call| answer(call.answer()).unwrap()).collect();
    assert_eq!(answers, [0, 1, 2, 3, 4, 5, 6, 100]);
    assert_eq!(answer(late.answer()).unwrap(), 101);
}

#[test]
fn a_waiter_that_is_cancelled_before_its_round_is_sent_is_not_in_it() {
    let (combiner, worker) = combiner();
    let facts: [CallFacts; 4] = Default::default();
    let mut calls: Vec<_> = (0..4_u64)
        .zip(&facts)
        .map(|(job, facts)| Some(combiner.submit(0, job, NOW.with_facts(facts)).unwrap()))
        .collect();
    calls[1] = None;
    let mut round = worker.try_next_round().unwrap();
    assert_eq!(jobs(&round), [0, 2, 3], "cancelled in the queue");
    calls[2] = None;
    round.mark_sent();
    assert_eq!(jobs(&round), [0, 3], "cancelled in the round");
    calls[3] = None;
    assert_eq!(jobs(&round), [0, 3], "cancelled after it was sent");
    let codes =
        facts.each_ref().map(|facts| (facts.expired().code(), facts.expired().is_not_sent()));
    assert_eq!(codes[1..], [(Code::Timeout, true), (Code::Timeout, true), (Code::Timeout, false)]);
    round.finish([Ok(7), Ok(8)]);
    assert_eq!(answer(calls[0].take().unwrap().answer()).unwrap(), 7);
}

#[test]
fn cancelled_waiters_may_be_dropped_before_a_round_is_sent() {
    let (combiner, worker) = combiner();
    let mut calls: Vec<_> = (0..2).map(|job| combiner.submit(0, job, NOW).ok()).collect();
    let mut round = worker.try_next_round().unwrap();
    calls[0] = None;
    assert_eq!(jobs(&round), [0, 1]);
    round.drop_cancelled();
    assert_eq!((jobs(&round), round.is_empty()), (vec![1], false));
    calls[1] = None;
    round.drop_cancelled();
    assert!(round.is_empty());
}

#[test]
fn a_part_of_a_round_that_others_hold_up_waits_apart() {
    let (combiner, worker) = combiner();
    let facts: [CallFacts; 4] = Default::default();
    let mut calls: Vec<_> = (0..4_u64)
        .zip(&facts)
        .map(|(job, facts)| Some(combiner.submit(0, job, NOW.with_facts(facts)).unwrap()))
        .collect();
    let mut round = worker.try_next_round().unwrap();
    let mut locked = round.split(|job| job % 2 == 0);
    locked.mark_contended();
    assert_eq!((jobs(&round), jobs(&locked)), (vec![1, 3], vec![0, 2]));
    round.mark_sent();
    round.finish([Ok(1), Ok(3)]);
    assert_eq!(answer(calls[3].take().unwrap().answer()).unwrap(), 3);
    calls[0] = None;
    let expired = facts[0].expired();
    assert_eq!((expired.code(), expired.is_not_sent()), (Code::ConflictExhausted, true));
    locked.mark_sent();
    assert_eq!(jobs(&locked), [2], "its members are not marked as sent with the others");
    locked.finish([Ok(2)]);
    assert_eq!(answer(calls[2].take().unwrap().answer()).unwrap(), 2);
}

#[test]
fn a_round_that_was_not_sent_after_all_charges_no_cancelled_waiter() {
    let (combiner, worker) = combiner();
    let facts = CallFacts::new();
    let call = combiner.submit(0, 1, NOW.with_facts(&facts)).unwrap();
    let mut round = worker.try_next_round().unwrap();
    round.mark_sent();
    round.mark_not_sent();
    drop(call);
    assert!(facts.expired().is_not_sent());
}

#[test]
fn a_waiter_that_was_cancelled_in_a_round_does_not_wait_again() {
    let (combiner, worker) = combiner();
    let (kept, cancelled) =
        (combiner.submit(0, 1, NOW).unwrap(), combiner.submit(0, 2, NOW).unwrap());
    let round = worker.try_next_round().unwrap();
    drop(cancelled);
    drop(round);
    assert_eq!(worker.waiting(), 1);
    assert_eq!(jobs(&worker.try_next_round().unwrap()), [1]);
    drop(kept);
}

#[test]
fn cancelled_waiters_are_dropped_before_they_outnumber_the_others() {
    let (combiner, worker) = combiner();
    let kept: Vec<_> = (0..20).map(|job| combiner.submit(0, job, NOW).unwrap()).collect();
    for job in 0..200 {
        // Behind a waiter that is kept, so that it is not dropped from the front.
        drop(combiner.submit(0, job, NOW).unwrap());
        let state = combiner.queue(0).lock();
        assert!(state.waiters.len() <= 2 * kept.len() + 1 && state.len() == kept.len());
    }
    assert_eq!(worker.waiting(), kept.len());
}

/// Of 20 that wait: more than half, and more than a few.
#[test]
fn cancelled_waiters_are_dropped_when_they_are_many_and_more_than_half() {
    for (waiting, cancelled, left) in [(20, 10, 20), (20, 11, 9), (12, 8, 12), (12, 9, 3)] {
        let (combiner, _worker) = combiner();
        let submit = |job| combiner.submit(0, job, NOW).unwrap();
        let mut calls: Vec<_> = (0..waiting).map(submit).collect();
        calls.truncate(calls.len() - cancelled);
        let state = combiner.queue(0).lock();
        assert_eq!(state.waiters.len(), left, "{cancelled} of {waiting}");
        assert_eq!(state.len(), calls.len());
        drop(state);
    }
}

#[test]
fn late_arrivals_join_until_the_round_is_sent() {
    let (combiner, worker) = combiner();
    let submit = |job| combiner.submit(0, job, NOW).unwrap();
    let _first = submit(1);
    let mut round = worker.try_next_round().unwrap();
    let _others: Vec<_> = (2..7).map(submit).collect();
    round.take_late_arrivals();
    assert_eq!(jobs(&round), [1, 2, 3, 4], "and no more than a round holds");
    round.mark_sent();
    round.take_late_arrivals();
    assert_eq!((round.len(), worker.waiting()), (4, 2));
    let mut rest = worker.try_next_round().unwrap();
    rest.mark_sent();
    let _late = submit(7);
    rest.take_late_arrivals();
    assert_eq!((jobs(&rest), worker.waiting()), (vec![5, 6], 1), "it has room, but was sent");
}

/// A backend that refuses a round has answered it; one that is not reached has not.
#[test]
fn a_round_that_fails_counts_as_answered_unless_it_is_an_outage() {
    let (combiner, worker) = combiner();
    for (code, answered) in [(Code::StoreUnavailable, 0), (Code::StoreFull, 1), (Code::Timeout, 1)]
    {
        let call = combiner.submit(0, 1, NOW).unwrap();
        worker.try_next_round().unwrap().fail(&Error::new(code, "no"));
        assert_eq!(answer(call.answer()).unwrap_err().code(), code);
        assert_eq!(Queues::answered(&*combiner, &0), answered, "{code:?}");
    }
}

#[test]
fn a_round_needs_a_quarter_more_than_the_shorter_of_the_last_two() {
    let (combiner, worker) = combiner();
    let _call = combiner.submit(0, 1, NOW).unwrap();
    let round = worker.try_next_round().unwrap();
    for (took, needed) in [(12, 0), (8, 10), (20, 10), (20, 25)] {
        round.record_duration(took);
        assert_eq!(round.needed_duration(), needed, "after {took}");
    }
}

#[test]
fn a_thread_takes_the_only_caller_that_waits() {
    let (combiner, worker) = combiner();
    let _call = combiner.submit(0, 1, NOW).unwrap();
    let Wakeup::Round(round) = worker.next_round_blocking(None) else { panic!("no round") };
    assert_eq!(jobs(&round), [1]);
}

#[test]
fn a_thread_waits_for_as_many_callers_as_it_wants() {
    let (combiner, worker) = combiner();
    let waits = thread::spawn(move || {
        worker.wait_for(2, Duration::from_secs(600));
        worker.waiting()
    });
    while combiner.queue(0).lock().wanted == 0 && !waits.is_finished() {
        thread::yield_now();
    }
    let _calls = [1, 2].map(|job| combiner.submit(0, job, NOW).unwrap());
    assert_eq!(waits.join().unwrap(), 2);
}

#[test]
fn a_round_that_is_dropped_before_it_was_sent_goes_back_to_the_front() {
    let (combiner, worker) = combiner();
    let calls: Vec<_> = (0..6).map(|job| combiner.submit(0, job, NOW).unwrap()).collect();
    drop(worker.try_next_round().unwrap());
    let mut round = worker.try_next_round().unwrap();
    assert_eq!(jobs(&round), [0, 1, 2, 3]);
    round.mark_sent();
    drop(round);
    let mut calls = calls.into_iter();
    for call in calls.by_ref().take(4) {
        let error = answer(call.answer()).unwrap_err();
        assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, false));
    }
    assert_eq!(worker.waiting(), 2, "the others are not concerned");
}

#[test]
fn a_deadline_is_classified_by_what_happened_in_the_queue() {
    let (combiner, worker) = combiner();
    let classify = |act: &dyn Fn()| {
        let facts = CallFacts::new();
        let call = combiner.submit(0, 9, NOW.with_facts(&facts)).unwrap();
        act();
        drop(call);
        let error = facts.expired();
        (error.code(), error.is_not_sent())
    };
    let mut busy = worker.try_next_round();
    assert!(busy.is_none());
    assert_eq!(classify(&|| {}), (Code::Timeout, true), "a silent backend");
    let others = combiner.submit(0, 1, NOW).unwrap();
    busy = worker.try_next_round();
    let mut busy = busy.unwrap();
    let counts = || busy.count_answered();
    assert_eq!(classify(&counts), (Code::QueueFull, true), "others were served");
    assert_eq!(classify(&|| {}), (Code::Timeout, true), "it joined after that");
    busy.finish([Ok(1)]);
    assert!(answer(others.answer()).is_ok());
    let lose = || {
        let mut round = worker.try_next_round().unwrap();
        round.mark_sent();
        assert_eq!(round.lost_race(&Retries::default()), 1);
    };
    assert_eq!(classify(&lose), (Code::ConflictExhausted, true), "a race was lost");
    let send = || {
        let mut round = worker.try_next_round().unwrap();
        round.mark_sent();
        core::mem::forget(round);
    };
    assert_eq!(classify(&send), (Code::Timeout, false), "sent, and not answered");
}

#[test]
fn waiters_that_lost_too_often_are_answered_and_the_others_go_on() {
    let (combiner, worker) = combiner();
    let retries = Retries::default().max_retries(1);
    let first = combiner.submit(0, 1, NOW).unwrap();
    let mut round = worker.try_next_round().unwrap();
    assert_eq!(round.lost_race(&retries), 1);
    let second = combiner.submit(0, 2, NOW).unwrap();
    round.take_late_arrivals();
    assert_eq!(round.lost_race(&retries), 1);
    assert_eq!(jobs(&round), [2]);
    let error = answer(first.answer()).unwrap_err();
    assert_eq!((error.code(), error.is_not_sent()), (Code::ConflictExhausted, true));
    round.finish([Ok(2)]);
    assert_eq!(answer(second.answer()).unwrap(), 2);
}

#[test]
fn waiters_of_a_round_may_be_answered_failed_and_appended() {
    let (combiner, worker) = combiner();
    let mut calls: Vec<_> = (0..3).map(|job| combiner.submit(0, job, NOW).unwrap()).collect();
    let mut round = worker.try_next_round().unwrap();
    calls.extend((3..5).map(|job| combiner.submit(0, job, NOW).unwrap()));
    round.append(worker.try_next_round().unwrap());
    assert_eq!(jobs(&round), [0, 1, 2, 3, 4]);
    round.answer(3, Ok(33));
    let refused = Error::new(Code::Unsupported, "no");
    round.fail_where(|job| *job == 1, &refused);
    assert_eq!(jobs(&round), [0, 2, 3, 4]);
    round.finish([Ok(10), Ok(12), Ok(99)]);
    round.fail(&refused);
    let answers: Vec<_> = calls.into_iter().map(|call| answer(call.answer()).ok()).collect();
    assert_eq!(answers, [Some(10), None, Some(12), Some(33), None], "the first answer counts");
}

#[test]
fn a_queue_is_bounded_and_cancelled_waiters_do_not_count() {
    let combiner = Sum::new(1, Limits { waiting: 30, ..LIMITS });
    let mut calls: Vec<_> = (0..30).map(|job| combiner.submit(0, job, NOW).unwrap()).collect();
    let refused = combiner.submit(0, 30, NOW).unwrap_err();
    assert_eq!((refused.code(), refused.is_not_sent()), (Code::QueueFull, true));
    calls.drain(5..25);
    let more: Vec<_> = (0..20).map(|job| combiner.submit(0, 100 + job, NOW)).collect();
    assert!(more.iter().all(Result::is_ok) && combiner.submit(0, 30, NOW).is_err());
    let worker = combiner.worker(0);
    let mut served = Vec::new();
    while let Some(mut round) = worker.try_next_round() {
        served.extend(jobs(&round));
        round.finish(core::iter::repeat_with(|| Ok(0)).take(4));
    }
    let expected: Vec<u64> = (0..5).chain(25..30).chain(100..120).collect();
    assert_eq!(served, expected);
}

#[test]
fn a_worker_that_ends_leaves_no_caller_waiting() {
    let (combiner, worker) = combiner();
    let mut calls = vec![combiner.submit(0, 1, NOW).unwrap()];
    let round = worker.try_next_round().unwrap();
    calls.push(combiner.submit(0, 2, NOW).unwrap());
    drop(worker);
    drop(round);
    for call in calls {
        let error = answer(call.answer()).unwrap_err();
        assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, true));
    }
    assert!(combiner.submit(0, 3, NOW).is_err());
}

#[test]
fn a_closed_queue_is_served_to_its_end() {
    let (combiner, worker) = combiner();
    let call = combiner.submit(0, 1, NOW).unwrap();
    combiner.close();
    assert_eq!(combiner.submit(0, 2, NOW).unwrap_err().code(), Code::StoreUnavailable);
    let Wakeup::Round(mut round) = worker.next_round_blocking(None) else { panic!("no round") };
    round.finish([Ok(1)]);
    assert!(answer(call.answer()).is_ok() && answer(worker.next_round()).is_none());
    assert!(matches!(worker.next_round_blocking(None), Wakeup::Closed));
}

#[test]
fn a_task_is_woken_when_a_caller_comes() {
    let (combiner, worker) = combiner();
    let woken = Arc::new(Woken::default());
    let waker = Arc::clone(&woken).into();
    let mut next = pin!(worker.next_round());
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let _call = combiner.submit(0, 1, NOW).unwrap();
    assert_eq!(woken.0.load(Relaxed), 1);
    assert!(poll(next).is_ready());
}

#[test]
fn a_thread_waits_for_callers_and_answers_them() {
    let (combiner, worker) = combiner();
    assert!(matches!(worker.next_round_blocking(Some(Duration::ZERO)), Wakeup::Timeout));
    let served = thread::spawn(move || {
        let mut served = 0;
        while let Wakeup::Round(mut round) = worker.next_round_blocking(None) {
            worker.wait_for(2, Duration::from_micros(1));
            round.take_late_arrivals();
            round.mark_sent();
            let squares: Vec<_> = round.jobs().map(|job| Ok(job * job)).collect();
            served += squares.len();
            round.finish(squares);
        }
        served
    });
    thread::scope(|scope| {
        for base in 0..4 {
            let combiner = &combiner;
            scope.spawn(move || {
                for job in base * 100..base * 100 + 100 {
                    let call = pin!(combiner.submit(0, job, NOW).unwrap().answer());
                    assert_eq!(block_on(call).unwrap(), job * job);
                }
            });
        }
    });
    combiner.close();
    assert_eq!(served.join().unwrap(), 400);
}

/// Runs a call on this thread, parked while it waits.
fn block_on<T>(mut call: Pin<&mut impl Future<Output = T>>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    loop {
        match call.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn answers_of_a_batch_that_are_there_at_the_deadline_are_not_lost() {
    let combiner = Combiner::<u64, Result<Evidence>>::new(1, LIMITS);
    let worker = combiner.worker(0);
    let results = BatchResults::new(6);
    {
        let calls: Vec<_> = (0..6)
            .map(|index| combiner.submit(0, index as u64, results.context(index, NOW)))
            .collect();
        let mut batch = pin!(collect(calls, &results, |answer| answer));
        assert!(poll(batch.as_mut()).is_pending());
        let mut first = worker.try_next_round().unwrap();
        first.mark_sent();
        first.answer(0, Ok(Evidence::decided(crate::time::Now::at(7), vec![])));
        first.count_answered();
        let second = worker.try_next_round().unwrap();
        assert!(poll(batch.as_mut()).is_pending());
        core::mem::forget((first, second));
    }
    let codes: Vec<_> = results
        .expired(&CallFacts::new())
        .into_iter()
        .map(|one| one.map_err(|error| (error.code(), error.is_not_sent())).err())
        .collect();
    let (lost, queued) = (Some((Code::Timeout, false)), Some((Code::QueueFull, true)));
    assert_eq!(codes, [None, lost, lost, lost, queued, queued]);
}

/// Rounds took 200 of the 100 microseconds that a caller has. One that joins behind another is
/// refused; one that finds no other waiting is not, and rounds are measured anew.
#[test]
fn a_caller_that_joins_too_late_is_refused_at_once() {
    for (is_served, code) in [(false, Code::Timeout), (true, Code::QueueFull)] {
        let (combiner, worker) = combiner();
        let clock = ManualClock::at(0);
        let cx = NOW.with_deadline(&clock, 100);
        let measure = |took| {
            let call = combiner.submit(0, 1, NOW).unwrap();
            let mut round = worker.try_next_round().unwrap();
            round.mark_sent();
            let call = Some(call).filter(|_| is_served);
            round.finish_measured([Ok(1)], took);
            drop(call);
        };
        [200, 200].into_iter().for_each(measure);
        let first = combiner.submit(0, 1, cx).unwrap();
        let refused = combiner.submit(0, 2, cx).unwrap_err();
        assert_eq!((refused.code(), refused.is_not_sent()), (code, true), "{refused}");
        assert_eq!(worker.waiting(), 1);
        let patient = combiner.submit(0, 3, NOW.with_deadline(&clock, 200)).unwrap();
        drop((first, patient));
        measure(50);
        let calls = [(); 3].map(|()| combiner.submit(0, 1, cx));
        assert!(calls.iter().all(Result::is_ok), "the store is quick again");
    }
}
