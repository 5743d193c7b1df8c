//! Costs that are known only after the response: refunded, or charged on top, into debt too.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::StatusCode;
use tollgate::algorithm::{Gcra, SlidingLog};
use tollgate::store::Store;
use tollgate::{Cost, Limit, Limiter, ManualClock, Quota, Receipt};
use tollgate_testkit::ReferenceStore;
use tollgate_tower::extract::Global;
use tollgate_tower::{LimitRule, RateLimitLayer};

use crate::support::{NOW, Server, limiter, runtime, serve};

/// The units that the service used.
#[derive(Clone, Copy)]
struct Used(u64);

async fn query(Query(query): Query<Vec<(String, u64)>>) -> Response {
    let used = query.iter().find(|(name, _)| name == "used").map_or(1, |(_, used)| *used);
    axum::Extension(Used(used)).into_response()
}

async fn login(Query(query): Query<Vec<(String, u64)>>) -> StatusCode {
    let is_right = query.iter().any(|(_, right)| *right == 1);
    if is_right { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
}

fn day(units: u64) -> Limit {
    Limit::new("day", SlidingLog::new(Quota::per_day(units)).unwrap()).unwrap()
}

/// Ten units a day; every request is charged three and settled by what it used.
async fn settled<S: Store + Send + Sync + 'static>(limiter: Arc<Limiter<S>>) -> Server {
    let rule = LimitRule::new(day(10), Global)
        .cost(|_| Cost::new(3).unwrap())
        .settle(|response| response.extensions.get::<Used>().map_or(3, |used| used.0));
    let layer = RateLimitLayer::builder(limiter).limit_rule(rule).build().unwrap();
    serve(Router::new().route("/", get(query)).layer(layer)).await
}

async fn left<S: Store>(limiter: &Limiter<S>) -> u64 {
    limiter.forecast(day(10).charge("all")).await.unwrap().spendable_now
}

async fn what_is_used_counts<S: Store + Send + Sync + 'static>(limiter: Limiter<S>) {
    let limiter = Arc::new(limiter);
    let server = settled(Arc::clone(&limiter)).await;
    for (used, expected) in [(1, 9), (0, 9), (3, 6), (5, 1)] {
        assert_eq!(server.get(&format!("/?used={used}")).await.status(), 200);
        assert_eq!(left(&limiter).await, expected, "after one that used {used}");
    }
    assert_eq!(server.get("/?used=0").await.status(), 429, "three are requested, one is left");
    assert_eq!(left(&limiter).await, 1);
}

#[test]
fn unused_units_are_refunded_and_excess_units_charged() {
    runtime().block_on(async {
        what_is_used_counts(limiter().0).await;
        let clock = ManualClock::at(NOW);
        what_is_used_counts(Limiter::with_clock(ReferenceStore::new(), clock).build()).await;
    });
}

#[test]
fn an_excess_beyond_the_limit_leaves_a_debt_up_to_its_bound() {
    runtime().block_on(async {
        let limiter = Arc::new(limiter().0);
        let server = settled(Arc::clone(&limiter)).await;
        assert_eq!(server.get("/?used=18446744073709551615").await.status(), 200);
        assert_eq!(left(&limiter).await, 0);
        assert_eq!(server.get("/").await.status(), 429);
        // Twenty units are owed.
        let limit = day(10);
        let refund = |units: u64| {
            limit.charge("all").cost(Cost::new(units).unwrap()).refund(Receipt::Newest)
        };
        limiter.refund(refund(10)).await.unwrap();
        assert_eq!(left(&limiter).await, 0);
        limiter.refund(refund(3)).await.unwrap();
        assert_eq!(left(&limiter).await, 3);
        assert_eq!(server.get("/?used=3").await.status(), 200);
        assert_eq!(left(&limiter).await, 0);
    });
}

#[test]
fn only_failed_logins_count_even_when_they_are_concurrent() {
    runtime().block_on(async {
        let (limiter, clock) = limiter();
        let gcra = Gcra::new(Quota::new(3, Duration::from_secs(3_600))).unwrap();
        let rule = LimitRule::new(Limit::new("failed-logins", gcra).unwrap(), Global)
            .count_only(|response| response.status == StatusCode::UNAUTHORIZED);
        let layer = RateLimitLayer::builder(limiter).limit_rule(rule).build().unwrap();
        let server = serve(Router::new().route("/login", get(login)).layer(layer)).await;
        assert_eq!(server.statuses("/login?right=1", 20).await, [200; 20]);
        let guesses: Vec<_> = (0..50)
            .map(|_| {
                let server = server.clone();
                tokio::spawn(async move { server.get("/login?right=0").await.status().as_u16() })
            })
            .collect();
        let mut tried = 0;
        for guess in guesses {
            tried += usize::from(guess.await.unwrap() == 401);
        }
        assert_eq!(tried, 3);
        assert_eq!(server.get("/login?right=1").await.status(), 429);
        clock.advance(Duration::from_secs(1_200));
        assert_eq!(server.statuses("/login?right=1", 5).await, [200; 5]);
        assert_eq!(server.statuses("/login?right=0", 2).await, [401, 429]);
    });
}
