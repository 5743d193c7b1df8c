//! A caller that is queued when its deadline expires: `queue_full` if others were answered, and
//! never charged.

use core::future::{Future as _, poll_fn};
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;

use tollgate_core::store::{CallContext, Retries, Store};
use tollgate_core::{Admission, Charge, Code, Limiter, ManualClock, OutageMode, Result};

use super::Plain;
use super::cross_slot::{limit, spent};
use super::drops::Caller;
use crate::transport::{Call, Reply, Transport};
use crate::{KeyLayout, Redis};

/// Sends as many calls as the test has allowed.
struct Gated {
    plain: Plain,
    allowed: Arc<AtomicUsize>,
}

impl Transport for Gated {
    async fn send(&self, call: &Call) -> Result<Reply> {
        poll_fn(|_| match self.allowed.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Poll::Ready(()),
            Err(_) => Poll::Pending,
        })
        .await;
        self.plain.send(call).await
    }
}

fn is_ready(caller: &mut Caller<'_>) -> bool {
    caller.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// Two calls are under way, then one call and a large round. A caller that comes now waits for the
/// next round. What it gets when its deadline expires.
fn queued(policy: &str, are_others_answered: bool) -> &'static str {
    const MANY: usize = 10;
    let allowed = Arc::new(AtomicUsize::new(0));
    let store = Redis::over(Gated { plain: Plain::connect(), allowed: allowed.clone() });
    let limit = limit("deadlines", policy, 1_000).on_outage(OutageMode::Open);
    let busy = [limit.charge("busy")];
    let admission = Admission::of(&busy);
    let admit = || Box::pin(store.admit(&admission, CallContext::store_clock())) as Caller<'_>;
    let [mut first, mut second] = [admit(), admit()];
    assert!(!is_ready(&mut first) && !is_ready(&mut second));
    let mut many: Vec<Caller<'_>> = (0..MANY).map(|_| admit()).collect();
    assert!(many.iter_mut().all(|caller| !is_ready(caller)));
    // The script may have to be loaded: two calls.
    allowed.store(2, SeqCst);
    assert!(is_ready(&mut first));
    allowed.store(0, SeqCst);
    // One of the many leads a round of all of them.
    assert!(many.iter_mut().all(|caller| !is_ready(caller)));
    let clock = ManualClock::at(0);
    let limiter = Limiter::with_clock(store.clone(), clock.clone()).build();
    let charge: Charge<'_> = limit.charge("queued");
    let mut check = Box::pin(limiter.check(charge));
    let mut context = Context::from_waker(Waker::noop());
    assert!(check.as_mut().poll(&mut context).is_pending());
    if are_others_answered {
        allowed.store(1, SeqCst);
        assert!(is_ready(&mut second));
        assert!(check.as_mut().poll(&mut context).is_pending(), "it is still queued");
    }
    clock.advance(Duration::from_secs(60));
    let Poll::Ready(answer) = check.as_mut().poll(&mut context) else {
        panic!("the deadline has expired");
    };
    allowed.store(100, SeqCst);
    many.iter_mut().for_each(|caller| while !is_ready(caller) {});
    assert_eq!(spent(&store, charge), 0, "it was not sent, and must not be charged");
    match answer {
        Ok(decision) => decision.degraded.map_or("decided", OutageMode::as_str),
        Err(error) => {
            assert!(error.is_not_sent(), "{error}");
            error.code().as_str()
        }
    }
}

#[test]
fn a_caller_that_others_are_served_before_gets_queue_full_and_is_not_charged() {
    assert_eq!(queued("served", true), "queue_full");
}

/// Nothing is answered while it waits: an outage.
#[test]
fn a_caller_that_waits_for_a_silent_server_gets_a_timeout_and_is_not_charged() {
    assert_eq!(queued("silent", false), "open");
}

/// Rounds take 60 ms. A caller that has waited for 50 of its 100 ms behind others is refused when
/// its round would begin: sent, it would be charged and not answered.
#[test]
fn a_caller_that_cannot_be_answered_any_more_is_refused_at_once_and_not_charged() {
    let allowed = Arc::new(AtomicUsize::new(0));
    let clock = ManualClock::at(0);
    let gated = Gated { plain: Plain::connect(), allowed: allowed.clone() };
    let options = (KeyLayout::default(), Retries::default());
    let store = Redis::with_options(gated, options.0, options.1, clock.clone());
    let limit = limit("deadlines", "late", 1_000).on_outage(OutageMode::Open);
    let busy = [limit.charge("busy")];
    let admission = Admission::of(&busy);
    let admit = || {
        let mut caller =
            Box::pin(store.admit(&admission, CallContext::store_clock())) as Caller<'_>;
        assert!(!is_ready(&mut caller));
        caller
    };
    let finish = |callers: &mut [Caller<'_>]| {
        allowed.store(100, SeqCst);
        callers.iter_mut().for_each(|caller| while !is_ready(caller) {});
        allowed.store(0, SeqCst);
    };
    let mut alone = [admit()];
    for _ in 0..2 {
        let mut beside = [admit()];
        let mut round: Vec<Caller<'_>> = (0..10).map(|_| admit()).collect();
        finish(&mut beside);
        assert!(round.iter_mut().all(|caller| !is_ready(caller)), "one of them leads");
        clock.advance(Duration::from_millis(60));
        finish(&mut round);
    }
    let mut beside = [admit()];
    let limiter = Limiter::with_clock(store.clone(), clock.clone()).build();
    let charge: Charge<'_> = limit.charge("late");
    let mut check = Box::pin(limiter.check(charge));
    let mut context = Context::from_waker(Waker::noop());
    assert!(check.as_mut().poll(&mut context).is_pending(), "it is queued");
    clock.advance(Duration::from_millis(50));
    finish(&mut beside);
    let Poll::Ready(answer) = check.as_mut().poll(&mut context) else {
        panic!("it waits though it is too late");
    };
    let error = answer.unwrap_err();
    assert_eq!((error.code(), error.is_not_sent()), (Code::QueueFull, true), "{error}");
    finish(&mut alone);
    allowed.store(100, SeqCst);
    assert_eq!(spent(&store, charge), 0, "it was not sent, and must not be charged");
}
