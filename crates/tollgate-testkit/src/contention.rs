//! Callers whose deadline expires while other callers delay them: the outage mode must never admit
//! them.
//!
//! A deadline expires when the test advances the clock, which it does after a lost race. So nothing
//! here depends on the speed of a machine or a server.
#![expect(
    clippy::expect_used,
    reason = "a check panics when the store breaks it: that is its purpose"
)]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use tollgate_core::clock::WaitHandle;
use tollgate_core::limiter::BreakerConfig;
use tollgate_core::store::Store;
use tollgate_core::{
    Admission, Charge, Clock, Code, Limit, Limiter, ManualClock, Micros, OutageMode,
};

use crate::runtime::yield_now;

/// Longer than the deadline of any limiter.
const TOO_LONG: Duration = Duration::from_secs(3_600);
/// How often the loser has to lose.
const LOSSES: u64 = 3;

/// A clock that a test advances, and that counts the waits on it: a store that waits between
/// attempts has lost a race. No decision uses it.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    clock: ManualClock,
    count: Arc<AtomicU64>,
}

impl Losses {
    /// How many races were lost so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Ends all waits: a second passes.
    pub fn let_go_on(&self) {
        self.clock.advance(Duration::from_secs(1));
    }
}

impl Clock for Losses {
    fn now(&self) -> Micros {
        self.clock.now()
    }

    fn wake_at(&self, at: Micros, waker: &Waker) -> WaitHandle {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.clock.wake_at(at, waker)
    }
}

/// Lets one store lose races to another, under a limit that admits in an outage, and gives its
/// callers no time after that. Each of them must be refused as one that met others; what was
/// admitted, and nothing else, must be spent in the end.
///
/// `losses` tells how many races the loser has lost (see [`Losses`]). It must wait for long after
/// each: set its back-off to minutes. `limit` must hold some hundred units that do not come back.
///
/// # Panics
/// When the store does not do as it must.
pub async fn losers_are_never_let_in<S: Store>(
    stores: (S, S),
    losses: impl Fn() -> u64,
    limit: &Limit,
    now: Micros,
) {
    let limit = limit.clone().on_outage(OutageMode::Open);
    let hot = [limit.charge("hot")];
    let mut fight = Fight::new(stores, now);
    for _ in 0..LOSSES {
        fight.until_refused(&Admission::of(&hot), &losses).await;
    }
    assert_eq!(fight.spent(hot[0]).await, fight.admitted, "more or less was spent than admitted");
}

/// The same for a store that charges keys one after another where it cannot charge them at once:
/// the loser asks for a unit of one limit and for one of a limit that is full already, which is
/// denied. Giving the first one back is where it loses, and that must come to its end without its
/// caller.
///
/// The loser waits on `losses` between its attempts. The key `hot` of the one must be charged
/// before the key `full` of the other.
///
/// # Panics
/// When the store does not do as it must.
pub async fn losers_over_several_keys_are_never_let_in<S: Store>(
    stores: (S, S),
    losses: &Losses,
    [limit, full]: [&Limit; 2],
    now: Micros,
) {
    let limits = [limit, full].map(|limit| limit.clone().on_outage(OutageMode::Open));
    let charges = [limits[0].charge("hot"), limits[1].charge("full")];
    let mut fight = Fight::new(stores, now);
    for _ in 0..LOSSES {
        fight.until_refused(&Admission::of(&charges), || losses.count()).await;
        let mut looks = 0_u32;
        // No other caller charges these keys any more.
        while fight.spent(charges[0]).await > fight.admitted {
            looks += 1;
            assert!(looks < 1_000_000, "what was taken does not come back");
            losses.let_go_on();
            yield_now().await;
        }
        assert_eq!(fight.spent(charges[0]).await, fight.admitted, "more came back than was taken");
    }
}

/// A limiter that loses races, one that wins them, and how much both have admitted.
struct Fight<S> {
    loser: Limiter<S>,
    clock: ManualClock,
    rival: Limiter<S>,
    admitted: u64,
}

impl<S: Store> Fight<S> {
    fn new((loser, rival): (S, S), now: Micros) -> Self {
        let clock = ManualClock::at(now);
        let loser = Limiter::with_clock(loser, clock.clone()).build();
        let rival = Limiter::with_clock(rival, ManualClock::at(now)).deadline(TOO_LONG).build();
        Self { loser, clock, rival, admitted: 0 }
    }

    /// Polls the loser while the rival charges the first key, until the loser is refused because
    /// its deadline expired after a lost race.
    async fn until_refused(&mut self, admission: &Admission<'_>, losses: impl Fn() -> u64) {
        let hot = *admission.charges().first().expect("something is charged");
        let error = loop {
            let before = losses();
            let mut call = pin!(self.loser.check(admission));
            let answer = loop {
                // The waker is that of this task, which polls after every event.
                let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
                match polled {
                    Poll::Ready(answer) => break answer,
                    Poll::Pending if losses() > before => {
                        self.clock.advance(TOO_LONG);
                        break call.await;
                    }
                    Poll::Pending => {
                        let decision = self.rival.check(hot).await.expect("the rival is decided");
                        assert_eq!(decision.degraded, None);
                        self.admitted += u64::from(decision.is_allowed());
                    }
                }
            };
            match answer {
                Ok(decision) => {
                    assert_eq!(decision.degraded, None, "the loser was let in");
                    self.admitted += u64::from(decision.is_allowed());
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error.code(), Code::ConflictExhausted, "{error}");
        let stats = self.loser.stats();
        assert_eq!(
            (stats.degraded_open, stats.store_failures, stats.breaker_rejections),
            (0, 0, 0)
        );
    }

    async fn spent(&self, charge: Charge<'_>) -> u64 {
        let seen = self.rival.peek(charge).await.expect("the rival may look");
        seen.limit - seen.remaining
    }
}

/// Repeats a call whose deadline expires at once, until it is refused because other callers delay
/// it: from then on the queue of the store shows contention, also to all other waiters.
///
/// Before that, the outage mode admits the calls: no round of the queue was answered yet.
///
/// # Panics
/// When a caller fails otherwise.
pub async fn until_held_up<S: Store>(store: &Arc<S>, charge: Charge<'_>, now: Micros) {
    loop {
        let clock = ManualClock::at(now);
        let never = BreakerConfig::default().failures(0);
        let limiter = Limiter::with_clock(store.clone(), clock.clone()).breaker(never).build();
        let mut call = pin!(limiter.check(charge));
        let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        assert!(polled.is_pending(), "no other caller delays the call");
        clock.advance(TOO_LONG);
        match call.await {
            Ok(decision) => assert_eq!(decision.degraded, Some(OutageMode::Open)),
            Err(error) => {
                assert!(
                    matches!(error.code(), Code::QueueFull | Code::ConflictExhausted),
                    "{error}"
                );
                return;
            }
        }
        yield_now().await;
    }
}
