//! Callers whose time is up while others are in their way: they must never be let in.
//!
//! Time is up when a test says so, and a test says so when it knows what happened to the caller. So
//! nothing here depends on how fast a machine or a server is.
#![expect(
    clippy::expect_used,
    reason = "a check panics when the store breaks it: that is its purpose"
)]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate_core::limiter::BreakerConfig;
use tollgate_core::store::Store;
use tollgate_core::{
    Charge, Code, Decision, Degraded, Limit, Limiter, ManualClock, Micros, Result,
};

/// Longer than the deadline of any limiter.
const TOO_LONG: Duration = Duration::from_secs(3_600);
/// How often the loser has to lose.
const LOSSES: u64 = 3;

/// Lets one store lose races to another, under a limit that admits in an outage, and gives its callers no
/// time after that. Each of them must be refused as one that met others; what was admitted, and nothing
/// else, must be spent in the end.
///
/// `losses` tells how many races the loser has lost. It must wait for long after each: set its back-off
/// to minutes. `limit` must hold some hundred units that do not come back.
///
/// # Panics
/// When the store does not do as it must.
pub async fn losers_are_never_let_in<S: Store>(
    (loser, rival): (S, S),
    losses: impl Fn() -> u64,
    limit: &Limit,
    now: Micros,
) {
    let limit = limit.clone().on_outage(Degraded::Open);
    let (clock, still) = (ManualClock::at(now), ManualClock::at(now));
    let rival = Limiter::with_clock(rival, still).deadline(TOO_LONG).build();
    let limiter = Limiter::with_clock(loser, clock.clone()).build();
    let (mut admitted, mut refused) = (0_u64, 0_u64);
    let is_allowed = |answer: Result<Decision>| {
        let decision = answer.expect("the rival is decided");
        assert_eq!(decision.degraded, None);
        u64::from(decision.is_allowed())
    };
    while refused < LOSSES {
        let before = losses();
        let mut call = pin!(limiter.check(limit.charge("hot")));
        let answer = loop {
            // The waker of this task: whatever happens is looked at here.
            let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
            match polled {
                Poll::Ready(answer) => break answer,
                Poll::Pending if losses() > before => {
                    clock.advance(TOO_LONG);
                    break call.await;
                }
                Poll::Pending => {
                    admitted += is_allowed(rival.check(limit.charge("hot")).await);
                }
            }
        };
        match answer {
            Ok(decision) => {
                assert_eq!(decision.degraded, None, "the loser was let in");
                admitted += u64::from(decision.is_allowed());
            }
            Err(error) => {
                assert_eq!(error.code(), Code::ConflictExhausted, "{error}");
                refused += 1;
            }
        }
    }
    let seen = rival.peek(limit.charge("hot")).await.expect("the rival may look");
    assert_eq!(seen.limit - seen.remaining, admitted, "more or less was spent than admitted");
    let stats = limiter.stats();
    assert_eq!((stats.degraded_open, stats.store_failures, stats.breaker_rejections), (0, 0, 0));
}

/// Asks until a caller whose time is up at once is refused because others are in its way: then that is
/// known to the store, and holds for everybody else who waits as well.
///
/// Before that, callers are let in by the failure mode: the store has heard nothing yet.
///
/// # Panics
/// When a caller fails otherwise.
pub async fn until_held_up<S: Store>(store: &Arc<S>, charge: Charge<'_>, now: Micros) {
    loop {
        let clock = ManualClock::at(now);
        let never = BreakerConfig { failures: 0, ..BreakerConfig::default() };
        let limiter = Limiter::with_clock(store.clone(), clock.clone()).breaker(never).build();
        let mut call = pin!(limiter.check(charge));
        let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        assert!(polled.is_pending(), "nobody is in the way");
        clock.advance(TOO_LONG);
        match call.await {
            Ok(decision) => assert_eq!(decision.degraded, Some(Degraded::Open)),
            Err(error) => {
                assert!(
                    matches!(error.code(), Code::QueueFull | Code::ConflictExhausted),
                    "{error}"
                );
                return;
            }
        }
        crate::runtime::yield_now().await;
    }
}
