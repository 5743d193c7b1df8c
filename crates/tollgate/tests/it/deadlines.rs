//! Deadlines, the bounded queue, and wake-ups: on a clock that is moved by hand, and once for real.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate::authoring::Key;
use tollgate::clock::sleep_until;
use tollgate::store::{CallContext, Capability, Evidence, Loaded, Store};
use tollgate::{
    Admission, Charge, Clock, Code, Decision, Error, Limit, Limiter, ManualClock, Micros,
    OutageMode, Result,
};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::fault::{Fault, Faulty};
use tollgate_testkit::runtime::block_on;

use crate::support::{Call, MS, NOW, WakeCount, compare_and_swap, faulty, per_hour, poll};

const DEADLINE: Micros = 100 * MS;

fn after(micros: Micros) -> Duration {
    Duration::from_micros(micros)
}

type Faults = Arc<Faulty<ReferenceStore>>;

fn limiter(
    clock: &ManualClock,
    faults: impl IntoIterator<Item = Fault>,
) -> (Limiter<Faults>, Faults) {
    let store = faulty(clock, faults);
    (Limiter::with_clock(store.clone(), clock.clone()).build(), store)
}

#[test]
fn a_hanging_store_times_out_at_exactly_the_deadline() {
    let clock = ManualClock::at(NOW);
    let (limiter, _) = limiter(&clock, [Fault::Hang]);
    let limit = per_hour("p", 10);
    let mut call: Call<'_, _> = Box::pin(limiter.peek(limit.charge("k")));
    assert!(poll(&mut call).is_none());
    clock.set(NOW + DEADLINE - 1);
    assert!(poll(&mut call).is_none(), "a microsecond before");
    clock.set(NOW + DEADLINE);
    let error = poll(&mut call).unwrap().unwrap_err();
    assert_eq!(error.code(), Code::Timeout);
}

#[test]
fn a_timeout_is_decided_by_the_mode() {
    for mode in [OutageMode::Open, OutageMode::Closed, OutageMode::Local] {
        let clock = ManualClock::at(NOW);
        let (limiter, store) = limiter(&clock, [Fault::Hang, Fault::Hang]);
        let limit = per_hour("p", 10).on_outage(mode);
        let charges = [limit.charge("k")];
        let mut one: Call<'_, _> = Box::pin(limiter.check(charges[0]));
        let mut many: Call<'_, _> = Box::pin(limiter.check_batch(&charges));
        assert!(poll(&mut one).is_none() && poll(&mut many).is_none());
        clock.advance(after(DEADLINE));
        let one = poll(&mut one).unwrap().unwrap();
        let many = poll(&mut many).unwrap().remove(0).unwrap();
        assert_eq!((one.degraded, many.degraded), (Some(mode), Some(mode)));
        assert_eq!(store.calls(), 2, "a call that may have been sent is not tried again");
        assert_eq!(limiter.stats().store_failures, 2);
    }
}

#[test]
fn a_clock_that_steps_back_starts_the_wait_over_and_does_not_hold_it() {
    let clock = ManualClock::at(NOW);
    let (limiter, _) = limiter(&clock, [Fault::Hang]);
    let limit = per_hour("p", 10);
    let mut call: Call<'_, _> = Box::pin(limiter.check(limit.charge("k")));
    assert!(poll(&mut call).is_none());
    let back = NOW - 3_600_000_000;
    clock.set(back);
    assert!(poll(&mut call).is_none());
    clock.set(back + DEADLINE - 1);
    assert!(poll(&mut call).is_none());
    clock.set(back + DEADLINE);
    assert!(poll(&mut call).is_some(), "an hour back must not mean an hour of waiting");
}

#[test]
fn the_deadline_can_be_set() {
    let clock = ManualClock::at(NOW);
    let store = faulty(&clock, [Fault::Hang, Fault::Hang, Fault::Hang]);
    let of =
        |deadline| Limiter::with_clock(store.clone(), clock.clone()).deadline(deadline).build();
    let limit = per_hour("p", 10);
    let (short, none, endless) = (of(after(7)), of(Duration::ZERO), of(Duration::MAX));
    let mut call: Call<'_, _> = Box::pin(short.check(limit.charge("k")));
    assert!(poll(&mut call).is_none());
    clock.advance(after(7));
    assert_eq!(poll(&mut call).unwrap().unwrap().degraded, Some(OutageMode::Open));
    let mut call: Call<'_, _> = Box::pin(none.check(limit.charge("k")));
    assert_eq!(poll(&mut call).unwrap().unwrap().degraded, Some(OutageMode::Open), "at once");
    let mut call: Call<'_, _> = Box::pin(endless.check(limit.charge("k")));
    clock.advance(Duration::MAX);
    assert!(poll(&mut call).is_none(), "never");
}

#[test]
fn an_answer_that_is_there_counts_however_late_it_is_polled() {
    let clock = ManualClock::at(NOW);
    let (limiter, _) = limiter(&clock, [Fault::Delay(DEADLINE)]);
    let limit = per_hour("p", 10);
    let mut call: Call<'_, _> = Box::pin(limiter.check(limit.charge("k")));
    assert!(poll(&mut call).is_none());
    // Answer and deadline are due at once, and polled an hour later.
    clock.advance(Duration::from_secs(3_600));
    let decision = poll(&mut call).unwrap().unwrap();
    assert_eq!((decision.degraded, decision.remaining), (None, 9));
}

#[test]
fn an_answer_within_the_deadline_counts() {
    let clock = ManualClock::at(NOW);
    let (limiter, _) = limiter(&clock, [Fault::Delay(DEADLINE - 1)]);
    let limit = per_hour("p", 10);
    let mut call: Call<'_, _> = Box::pin(limiter.check(limit.charge("k")));
    assert!(poll(&mut call).is_none());
    clock.advance(after(DEADLINE - 1));
    assert_eq!(poll(&mut call).unwrap().unwrap().degraded, None);
}

/// Refuses connections, but takes its time to do so; then it answers.
#[derive(Debug)]
struct SlowlyRefusing {
    inner: ReferenceStore,
    clock: ManualClock,
    refuses_after: Micros,
    calls: AtomicU64,
}

impl Store for SlowlyRefusing {
    fn capability(&self) -> Capability {
        let mut capability = self.inner.capability();
        capability.in_process = false;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        if self.calls.fetch_add(1, Relaxed) > 0 {
            return self.inner.admit(admission, cx).await;
        }
        sleep_until(&self.clock, self.clock.now() + self.refuses_after).await;
        Err(Error::new(Code::StoreUnavailable, "refused").not_sent())
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.inner.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.inner.reset(key, cx).await
    }
}

#[test]
fn a_call_is_tried_again_only_inside_the_deadline() {
    for (refuses_after, is_retried) in [(DEADLINE - 1, true), (DEADLINE, false)] {
        let clock = ManualClock::at(NOW);
        let (inner, calls) = (ReferenceStore::new(), AtomicU64::new(0));
        let store = SlowlyRefusing { inner, clock: clock.clone(), refuses_after, calls };
        let limiter = Limiter::with_clock(store, clock.clone()).build();
        let limit = per_hour("p", 10);
        let mut call: Call<'_, _> = Box::pin(limiter.check(limit.charge("k")));
        assert!(poll(&mut call).is_none());
        clock.advance(after(refuses_after));
        let decision = poll(&mut call).unwrap().unwrap();
        assert_eq!(decision.degraded.is_none(), is_retried, "refused after {refuses_after} µs");
        assert_eq!(limiter.store().calls.load(Relaxed), if is_retried { 2 } else { 1 });
    }
}

#[test]
fn both_attempts_share_one_deadline() {
    let clock = ManualClock::at(NOW);
    let (limiter, store) = limiter(&clock, [Fault::Before, Fault::Hang]);
    let limit = per_hour("p", 10);
    let mut call: Call<'_, _> = Box::pin(limiter.check(limit.charge("k")));
    assert!(poll(&mut call).is_none());
    assert_eq!(store.calls(), 2);
    clock.advance(after(DEADLINE));
    assert_eq!(poll(&mut call).unwrap().unwrap().degraded, Some(OutageMode::Open));
}

#[test]
fn calls_beyond_the_bound_are_refused_and_never_fail_open() {
    let clock = ManualClock::at(NOW);
    let store = faulty(&clock, [Fault::Hang, Fault::Hang]);
    let limiter = Limiter::with_clock(store.clone(), clock).max_in_flight(2).build();
    let limit = per_hour("p", 10).on_outage(OutageMode::Open);
    let start = || -> Call<'_, Result<Decision>> { Box::pin(limiter.check(limit.charge("k"))) };
    let (mut first, mut second, mut third) = (start(), start(), start());
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    assert_eq!(poll(&mut third).unwrap().unwrap_err().code(), Code::QueueFull);
    let refused = block_on(limiter.check_batch(&[limit.charge("k"), limit.charge("l")]));
    assert!(refused.iter().all(|one| one.as_ref().unwrap_err().code() == Code::QueueFull));
    assert_eq!(store.calls(), 2, "the store was not asked");
    assert_eq!(limiter.stats().store_failures, 0, "and is not to blame");
    // A future that is dropped gives its place back, and so does one that ends.
    drop(first);
    assert!(block_on(limiter.check(limit.charge("k"))).unwrap().is_allowed());
    assert!(block_on(limiter.check(limit.charge("k"))).unwrap().is_allowed());
    drop(second);
}

#[test]
fn a_call_that_is_dropped_anywhere_leaves_the_limiter_usable() {
    let limit = per_hour("p", 1_000).on_outage(OutageMode::Local);
    let charges = [limit.charge("k"), limit.charge("l")];
    for polls in 0..12 {
        let store = Arc::new(compare_and_swap());
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).max_in_flight(1).build();
        let calls: [Call<'_, ()>; 5] = [
            Box::pin(async { drop(limiter.check(charges[0]).await) }),
            Box::pin(async { drop(limiter.check(&charges).await) }),
            Box::pin(async { drop(limiter.check_batch(&charges).await) }),
            Box::pin(async { drop(limiter.peek(charges[0]).await) }),
            Box::pin(async { drop(limiter.reset(limit.charge("other")).await) }),
        ];
        for mut call in calls {
            let _ = (0..polls).find_map(|_| poll(&mut call));
        }
        let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
        assert_eq!(decision.degraded, None, "{polls} polls");
        assert!((996..=999).contains(&decision.remaining), "{polls} polls: {decision:?}");
        assert_eq!(limiter.stats().store_failures, 0, "a dropped call is no outage");
    }
}

#[test]
fn whatever_fails_every_call_ends_by_its_deadline() {
    for seed in 0..30_usize {
        println!("seed {seed}");
        let clock = ManualClock::at(NOW);
        let faults = u64::try_from(seed).unwrap();
        let store = Faulty::seeded(ReferenceStore::new(), clock.clone(), faults, 500);
        let limiter = Limiter::with_clock(store, clock.clone()).build();
        let mode = [OutageMode::Open, OutageMode::Closed, OutageMode::Local][seed % 3];
        let limit = per_hour("p", 1_000).on_outage(mode);
        let charges = [limit.charge("a"), limit.charge("b"), limit.charge("c")];
        for step in 0..200 {
            let mut call: Call<'_, Vec<Result<Decision>>> = match step % 3 {
                0 => Box::pin(async { vec![limiter.check(charges[0]).await] }),
                1 => Box::pin(async { vec![limiter.check(&charges).await] }),
                _ => Box::pin(limiter.check_batch(&charges)),
            };
            let answer = poll(&mut call).or_else(|| {
                clock.advance(after(DEADLINE));
                poll(&mut call)
            });
            let answer = answer.unwrap();
            assert_eq!(answer.len(), if step % 3 == 2 { 3 } else { 1 });
            for one in answer {
                match one {
                    Ok(decision) => assert!(decision.degraded.is_none_or(|seen| seen == mode)),
                    Err(error) => assert_eq!(error.code(), Code::CorruptState, "only garbage"),
                }
            }
            clock.advance(after(DEADLINE));
        }
    }
}

#[test]
fn a_future_that_was_never_polled_holds_no_place() {
    let clock = ManualClock::at(NOW);
    let limiter = Limiter::with_clock(faulty(&clock, []), clock).max_in_flight(1).build();
    let limit = per_hour("p", 10);
    let idle = limiter.check(limit.charge("k"));
    assert!(block_on(limiter.check(limit.charge("k"))).is_ok());
    drop(idle);
}

#[test]
fn a_waiting_future_is_woken_when_the_clock_moves() {
    for moves in
        [(|clock: &ManualClock| clock.advance(after(DEADLINE))) as fn(&ManualClock), |clock| {
            clock.set(NOW + DEADLINE);
        }]
    {
        let clock = ManualClock::at(NOW);
        let (limiter, _) = limiter(&clock, [Fault::Hang]);
        let limit = per_hour("p", 10);
        let woken = Arc::new(WakeCount::default());
        let waker = Waker::from(woken.clone());
        let mut call: Call<'_, _> = Box::pin(limiter.check(limit.charge("k")));
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        clock.advance(after(1));
        assert_eq!(woken.0.load(Relaxed), 0, "not before it is due");
        clock.set(NOW);
        moves(&clock);
        assert_eq!(woken.0.load(Relaxed), 1);
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    }
}

#[test]
fn the_newest_waker_is_woken() {
    let clock = ManualClock::at(NOW);
    let (limiter, _) = limiter(&clock, [Fault::Hang]);
    let limit = per_hour("p", 10);
    let mut call: Call<'_, _> = Box::pin(limiter.check(limit.charge("k")));
    let wakers = [(); 2].map(|()| Arc::new(WakeCount::default()));
    for woken in &wakers {
        let waker = Waker::from(woken.clone());
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    clock.advance(after(DEADLINE));
    assert_eq!(wakers[1].0.load(Relaxed), 1);
}

/// Never answers.
#[derive(Debug)]
struct Silent;

impl Store for Silent {
    fn capability(&self) -> Capability {
        Capability::default()
    }

    async fn admit(&self, _: &Admission<'_>, _: CallContext<'_>) -> Result<Evidence> {
        std::future::pending().await
    }

    async fn load(&self, _: &[Charge<'_>], _: CallContext<'_>) -> Result<Loaded> {
        std::future::pending().await
    }

    async fn reset(&self, _: Key<'_>, _: CallContext<'_>) -> Result<()> {
        std::future::pending().await
    }
}

#[test]
fn a_silent_store_times_out_by_the_clock_of_the_system() {
    let limiter = Limiter::builder(Silent).deadline(Duration::from_millis(20)).build();
    let limit: Limit = per_hour("p", 10).on_outage(OutageMode::Closed);
    let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
    assert_eq!((decision.is_allowed(), decision.degraded), (false, Some(OutageMode::Closed)));
    let error = block_on(limiter.peek(limit.charge("k"))).unwrap_err();
    assert_eq!(error.code(), Code::Timeout);
}

#[test]
fn many_threads_time_out_by_the_clock_of_the_system() {
    let limiter = Limiter::builder(Silent).deadline(Duration::from_millis(5)).build();
    let limit = per_hour("p", 10);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
                assert_eq!(decision.degraded, Some(OutageMode::Open));
            });
        }
    });
    let stats = limiter.stats();
    assert_eq!(stats.store_failures + stats.breaker_rejections, 16);
    assert_eq!(stats.degraded_open, 16);
}
