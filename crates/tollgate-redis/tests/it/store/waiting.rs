//! Calls whose deadline expires on a server that does not answer: `timeout`, and nothing that was
//! queued is charged.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{
    Charge, Decision, Limit, Limiter, ManualClock, OutageMode, Quota, Result, algorithm as a,
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
        // Three deadlines of silence open the breaker; these are two.
        for _ in 0..2 {
            let mut check: Check<'_> = Box::pin(limiter.check(limit.charge("a")));
            assert!(is_pending(&mut check).await);
            clock.advance(Duration::from_millis(101));
            let decision = check.await.unwrap();
            assert_eq!(decision.degraded, Some(OutageMode::Open), "timeout, never queue_full");
        }
        proxy.set(Mode::Pass).unwrap();
    });
}

/// Two calls are under way, so the third waits in the queue, and the server does not answer.
#[test]
fn a_caller_that_is_queued_behind_a_silent_server_meets_an_outage_and_is_not_charged() {
    let (proxy, store, limiter, clock) = limiter();
    let limit = limit("silent");
    on_one_thread(async {
        let [first, second, third] = ["first", "second", "third"].map(|one| limit.charge(one));
        for charge in [first, second, third] {
            limiter.check(charge).await.unwrap();
        }
        proxy.set(Mode::Hold).unwrap();
        let mut calls = [first, second].map(|charge| Box::pin(limiter.check(charge)) as Check<'_>);
        for call in &mut calls {
            assert!(is_pending(call).await);
        }
        let mut waits: Check<'_> = Box::pin(limiter.check(third));
        assert!(is_pending(&mut waits).await);
        clock.advance(Duration::from_secs(60));
        // The queued one first: a call that ends lets it lead a round, and be sent.
        for call in [waits].into_iter().chain(calls) {
            assert_eq!(call.await.unwrap().degraded, Some(OutageMode::Open), "timeout");
        }
        proxy.set(Mode::Pass).unwrap();
        assert_eq!(spent(&store, third).await, 1, "nothing was charged");
    });
}
