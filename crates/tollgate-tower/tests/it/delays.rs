//! Delayed requests: shapers, and delays that grow.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tollgate::algorithm::{Gcra, LeakyBucket};
use tollgate::store::Memory;
use tollgate::{Clock, Limit, Limiter, ManualClock, Micros, Quota};
use tollgate_tower::{LimitRule, RateLimitLayer, SlowDown};

use crate::support::{NOW, Server, Watched, header, hello, peer, runtime};

/// A limiter, its clock, and the end of each wait on it.
fn watched() -> (Limiter<Memory>, ManualClock, UnboundedReceiver<Micros>) {
    let (watched, clock, waiting) = Watched::new();
    (Limiter::with_clock(Memory::new(), watched).build(), clock, waiting)
}

/// Sends a request, and sets the clock to the end of each wait. Returns the status and the delay.
async fn delayed(
    server: &Server,
    clock: &ManualClock,
    waiting: &mut UnboundedReceiver<Micros>,
) -> (u16, u64) {
    let before = clock.now();
    let mut request = std::pin::pin!(server.get("/"));
    loop {
        tokio::select! {
            response = &mut request => {
                return (response.status().as_u16(), (clock.now() - before) / 1_000);
            }
            Some(until) = waiting.recv() => clock.set(until),
        }
    }
}

#[test]
fn a_shaper_delays_requests() {
    runtime().block_on(async {
        let (limiter, clock, mut waiting) = watched();
        let bucket = LeakyBucket::new(Quota::per_second(10), 3).unwrap();
        let limit = Limit::new("shaped", bucket).unwrap();
        let server = hello(RateLimitLayer::new(limiter, limit, peer()).unwrap()).await;
        assert_eq!(delayed(&server, &clock, &mut waiting).await, (200, 0), "no need to wait");
        for _ in 0..5 {
            assert_eq!(delayed(&server, &clock, &mut waiting).await, (200, 100));
        }
    });
}

#[test]
fn a_delay_that_is_too_long_is_refused_and_refunded() {
    runtime().block_on(async {
        let (limiter, clock, mut waiting) = watched();
        let bucket = LeakyBucket::new(Quota::per_minute(1), 5).unwrap();
        let limit = Limit::new("shaped", bucket).unwrap();
        let layer = RateLimitLayer::builder(limiter)
            .limit(limit, peer())
            .max_delay(Duration::from_secs(10));
        let server = hello(layer.build().unwrap()).await;
        assert_eq!(server.get("/").await.status(), 200);
        for _ in 0..20 {
            let refused = server.get("/").await;
            assert_eq!(refused.status(), 429, "without refunds, a queue of 5 would be full");
            assert_eq!(header(&refused, "retry-after"), Some("50"));
        }
        clock.set(NOW + 50_000_000);
        assert_eq!(delayed(&server, &clock, &mut waiting).await, (200, 10_000));
    });
}

#[test]
fn delays_grow_with_what_was_spent() {
    runtime().block_on(async {
        let (limiter, clock, mut waiting) = watched();
        let gcra = Gcra::new(Quota::per_day(100)).unwrap();
        let slow =
            SlowDown::after(2, Duration::from_millis(200)).at_most(Duration::from_millis(500));
        let rule = LimitRule::new(Limit::new("slow", gcra).unwrap(), peer()).slow_down(slow);
        let server =
            hello(RateLimitLayer::builder(limiter).limit_rule(rule).build().unwrap()).await;
        for delay_ms in [0, 0, 200, 400, 500, 500] {
            assert_eq!(delayed(&server, &clock, &mut waiting).await, (200, delay_ms));
        }
    });
}
