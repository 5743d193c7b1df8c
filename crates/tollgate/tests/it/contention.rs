//! Contention is no outage: a call that loses until its deadline is never admitted, and the breaker
//! stays closed.

use std::sync::Arc;
use std::time::Duration;

use tollgate::store::{Cas, Retries};
use tollgate::{Code, Decision, Limiter, ManualClock, Micros, OutageMode, Result};
use tollgate_testkit::fault::Fault;
use tollgate_testkit::rng::Rng;
use tollgate_testkit::runtime::block_on;

use crate::support::{Call, MS, NOW, VersionedTable, faulty, per_hour, poll};

const DEADLINE: Micros = 100 * MS;

#[test]
fn a_call_that_loses_until_its_deadline_is_refused_under_every_mode() {
    for mode in [OutageMode::Open, OutageMode::Closed, OutageMode::Local] {
        let clock = ManualClock::at(NOW);
        let store = faulty(&clock, [Fault::Lose; 20]);
        let limiter = Limiter::with_clock(store, clock.clone()).build();
        let limit = per_hour("p", 10).on_outage(mode);
        let charges = [limit.charge("k"), limit.charge("l")];
        for _ in 0..10 {
            let mut one: Call<'_, _> = Box::pin(limiter.check(charges[0]));
            let mut many: Call<'_, _> = Box::pin(limiter.check_batch(&charges));
            assert!(poll(&mut one).is_none() && poll(&mut many).is_none());
            clock.advance(Duration::from_micros(DEADLINE));
            let answers = poll(&mut many).unwrap().into_iter().chain(poll(&mut one));
            for answer in answers {
                assert_eq!(answer.unwrap_err().code(), Code::ConflictExhausted, "{mode:?}");
            }
        }
        let stats = limiter.stats();
        assert_eq!((stats.store_failures, stats.breaker_rejections), (0, 0), "{mode:?}");
        assert!(block_on(limiter.check(charges[0])).unwrap().degraded.is_none());
    }
}

#[test]
fn a_silent_store_is_still_an_outage_beside_a_busy_one() {
    let clock = ManualClock::at(NOW);
    let faults = [Fault::Lose, Fault::Hang, Fault::Lose, Fault::Hang];
    let limiter = Limiter::with_clock(faulty(&clock, faults), clock.clone()).build();
    let limit = per_hour("p", 10);
    let mut calls: Vec<Call<'_, Result<Decision>>> = Vec::new();
    for _ in faults {
        calls.push(Box::pin(limiter.check(limit.charge("k"))));
    }
    assert!(calls.iter_mut().all(|call| poll(call).is_none()));
    clock.advance(Duration::from_micros(DEADLINE));
    let is_open: Vec<bool> = calls.iter_mut().map(|call| poll(call).unwrap().is_ok()).collect();
    assert_eq!(is_open, [false, true, false, true]);
    assert_eq!(limiter.stats().store_failures, 2);
}

/// Processes that compete for one key, each call with so little time that many run out of it. The
/// backend answers all the time.
#[test]
fn processes_that_compete_for_a_key_admit_at_most_the_limit_and_nothing_fails_open() {
    let mut held_up = 0;
    for seed in 0..30 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let clock = ManualClock::at(NOW);
        let table = Arc::new(VersionedTable::default());
        let process = || {
            let store = Cas::with_clock(table.clone(), clock.clone());
            let store =
                store.retries(Retries::default().base_backoff(Duration::ZERO).max_retries(1_000));
            Limiter::with_clock(store, clock.clone()).deadline(Duration::from_millis(8)).build()
        };
        let processes = [process(), process(), process(), process()];
        let limit = per_hour("p", 20).on_outage(OutageMode::Open);
        let mut calls: Vec<(u64, Option<Call<'_, Result<Decision>>>)> = Vec::new();
        for index in 0..60 {
            let limiter = &processes[index % 4];
            calls.push((rng.below(30), Some(Box::pin(limiter.check(limit.charge("k"))))));
        }
        let mut admitted = 0;
        // Every tick each call is polled: the backend takes a few ticks, not
        // eight.
        for tick in 0_u64.. {
            let ready = |(from, call): &&mut (u64, Option<_>)| *from <= tick && call.is_some();
            for (_, slot) in calls.iter_mut().filter(ready) {
                let Some(answer) = slot.as_mut().and_then(poll) else { continue };
                *slot = None;
                match answer {
                    Ok(decision) => {
                        assert_eq!(decision.degraded, None, "contention admits nothing");
                        admitted += u64::from(decision.is_allowed());
                    }
                    Err(error) => {
                        assert!(!error.is_outage() && error.is_not_sent(), "{error}");
                        held_up += 1;
                    }
                }
            }
            if calls.iter().all(|(_, call)| call.is_none()) {
                break;
            }
            clock.advance(Duration::from_millis(1));
        }
        // A charge with an unknown outcome may be spent, and is never more than the limit.
        assert!(admitted <= 20, "{admitted}");
        let left = block_on(processes[0].peek(limit.charge("k"))).unwrap().remaining;
        assert!(admitted + left <= 20, "{admitted} were admitted and {left} are left");
        for limiter in &processes {
            let stats = limiter.stats();
            assert_eq!((stats.degraded_open, stats.store_failures), (0, 0));
        }
    }
    println!("{held_up} of 1,800 were refused");
    assert!(held_up > 100, "there was never enough contention");
}
