//! Calls whose deadline expires: by facts, `timeout` if they were sent, `queue_full` only if nothing was charged.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{
    Charge, Code, Decision, Limit, Limiter, ManualClock, OutageMode, Quota, Result, algorithm as a,
};
use tollgate_redis::Redis;
use tollgate_test_servers::{FaultProxy, Mode, shared};

use super::{on_one_thread, store};

const UNITS: u64 = 1_000;

fn limit(policy: &str) -> Limit {
    let day = Duration::from_secs(86_400);
    let limit = Limit::new(policy, a::Gcra::new(Quota::new(UNITS, day)).unwrap()).unwrap();
    let prefix = format!("waiting-{}", std::process::id());
    limit.with_prefix(&prefix).unwrap().on_outage(OutageMode::Open)
}

type Check<'a> = Pin<Box<dyn Future<Output = Result<Decision>> + Send + 'a>>;

/// A store behind a proxy, and a limiter on a clock that stands still.
fn limiter() -> (FaultProxy, Redis, Limiter<Redis>, ManualClock) {
    let proxy = FaultProxy::to(shared::redis().addr()).unwrap();
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=60000";
    let store = store(&format!("redis://{}?{timeouts}", proxy.addr()));
    let clock = ManualClock::at(0);
    let limiter = Limiter::with_clock(store.clone(), clock.clone()).build();
    (proxy, store, limiter, clock)
}

async fn is_pending(check: &mut Check<'_>) -> bool {
    poll_fn(|context| Poll::Ready(check.as_mut().poll(context).is_pending())).await
}

async fn spent(store: &Redis, charge: Charge<'_>) -> u64 {
    let loaded = store.load(&[charge], CallContext::store_clock()).await.unwrap();
    let words = loaded.states[0].as_ref().map_or_else(Vec::new, |state| state.words.to_vec());
    UNITS - charge.rule().peek(&words, loaded.now, charge.cost).remaining
}

/// The server is slower than the deadline, and there is no other caller.
#[test]
fn a_single_caller_of_a_slow_server_meets_an_outage() {
    let (proxy, _store, limiter, clock) = limiter();
    let limit = limit("single");
    on_one_thread(async {
        // A connection, and a script that the server knows.
        limiter.check(limit.charge("a")).await.unwrap();
        proxy.set(Mode::Hold).unwrap();
        for _ in 0..3 {
            let mut check: Check<'_> = Box::pin(limiter.check(limit.charge("a")));
            assert!(is_pending(&mut check).await);
            clock.advance(Duration::from_secs(60));
            let decision = check.await.unwrap();
            assert_eq!(decision.degraded, Some(OutageMode::Open), "timeout, never queue_full");
        }
        proxy.set(Mode::Pass).unwrap();
    });
}

/// Two calls are under way, so the third waits in the queue. One of the two is answered, or none is.
fn queued_while_others_are(answered: bool) {
    let (proxy, store, limiter, clock) = limiter();
    let limit = limit(if answered { "answered" } else { "silent" });
    on_one_thread(async {
        let [first, second, third] = ["first", "second", "third"].map(|one| limit.charge(one));
        for charge in [first, second, third] {
            limiter.check(charge).await.unwrap();
        }
        proxy.set(Mode::Hold).unwrap();
        let mut calls = [first, second].map(|charge| {
            Box::pin(store_admit(&store, charge)) as Pin<Box<dyn Future<Output = bool> + Send>>
        });
        for call in &mut calls {
            assert!(poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await);
        }
        let mut waits: Check<'_> = Box::pin(limiter.check(third));
        assert!(is_pending(&mut waits).await);
        let [mut one, mut two] = calls;
        if answered {
            proxy.set(Mode::Pass).unwrap();
            assert!(pin!(&mut one).await && pin!(&mut two).await);
            proxy.set(Mode::Hold).unwrap();
        }
        clock.advance(Duration::from_secs(60));
        let decided = waits.await;
        proxy.set(Mode::Pass).unwrap();
        if !answered {
            assert!(one.await && two.await);
            assert_eq!(decided.unwrap().degraded, Some(OutageMode::Open), "timeout");
            assert_eq!(spent(&store, third).await, 1, "nothing was charged");
            return;
        }
        match decided {
            // It was still queued when the others were answered.
            Err(error) => {
                assert_eq!(error.code(), Code::QueueFull, "{error}");
                assert!(error.is_not_sent());
                assert_eq!(spent(&store, third).await, 1, "nothing was charged");
            }
            // Its round was sent behind theirs: decided, or unknown.
            Ok(decision) => assert!(decision.degraded.is_none_or(|mode| mode == OutageMode::Open)),
        }
    });
}

async fn store_admit(store: &Redis, charge: Charge<'_>) -> bool {
    let charges = [charge];
    let admission = tollgate_core::Admission::of(&charges);
    store.admit(&admission, CallContext::store_clock()).await.is_ok()
}

#[test]
fn a_caller_that_is_queued_behind_a_silent_server_meets_an_outage_and_is_not_charged() {
    queued_while_others_are(false);
}

#[test]
fn queue_full_means_that_nothing_was_charged() {
    queued_while_others_are(true);
}
