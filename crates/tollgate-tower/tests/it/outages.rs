//! A store that fails under traffic: public routes stay up, logins are refused, and all of it is
//! counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tollgate::limiter::{BreakerConfig, Degradation, Observer};
use tollgate::redis;
use tollgate::{Code, Limiter, ManualClock, OutageMode};
use tollgate_test_servers::Redis;
use tollgate_test_servers::wait::Deadline;
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::fault::{Fault, Faulty};
use tollgate_tower::{Decide, Event, RateLimitLayer};

use crate::support::{NOW, Server, header, json, peer, per_minute, runtime, serve};

/// What was logged.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<(OutageMode, Code)>>>);

impl Observer for Log {
    fn degraded(&self, event: &Degradation<'_>) {
        self.0.lock().unwrap().push((event.mode, event.code));
    }
}

type Faults = Arc<Faulty<ReferenceStore>>;

fn limiter(faults: Vec<Fault>, log: &Log) -> Arc<Limiter<Faults>> {
    let clock = ManualClock::at(NOW);
    let store = Arc::new(Faulty::scripted(ReferenceStore::new(), clock.clone(), faults));
    let limiter = Limiter::with_clock(store, clock).observer(log.clone());
    Arc::new(limiter.breaker(BreakerConfig::default().failures(0)).build())
}

#[test]
fn public_routes_stay_up_and_logins_are_refused() {
    runtime().block_on(async {
        let log = Log::default();
        let mut faults = vec![Fault::None; 4];
        faults.extend([Fault::After; 8]);
        let limiter = limiter(faults, &log);
        let counted = Arc::new(AtomicU64::new(0));
        let layer = |policy, mode| {
            let counted = Arc::clone(&counted);
            RateLimitLayer::builder(Arc::clone(&limiter))
                .limit(per_minute(policy, 100), peer())
                .on_outage(mode)
                .on_event(move |event| {
                    let (Event::Allowed(decision) | Event::Refused(decision)) = event else {
                        return;
                    };
                    counted.fetch_add(u64::from(decision.degraded.is_some()), Relaxed);
                })
                .build()
                .unwrap()
        };
        let app = Router::new()
            .route("/", get(|| async { "public" }).layer(layer("public", OutageMode::Open)))
            .route("/login", get(|| async { "in" }).layer(layer("login", OutageMode::Closed)));
        let server = serve(app).await;
        assert_eq!(server.statuses("/", 2).await, [200; 2]);
        assert_eq!(server.statuses("/login", 2).await, [200; 2]);

        // The store fails.
        assert_eq!(server.statuses("/", 4).await, [200; 4]);
        refused_for_lack_of_a_store(&server).await;
        assert_eq!(server.statuses("/login", 3).await, [503; 3]);

        assert_eq!(counted.load(Relaxed), 8);
        let stats = limiter.stats();
        assert_eq!((stats.degraded_open, stats.degraded_closed), (4, 4));
        let logged = log.0.lock().unwrap().clone();
        let expected = [
            (OutageMode::Open, Code::StoreUnavailable),
            (OutageMode::Closed, Code::StoreUnavailable),
        ];
        assert_eq!(logged, expected, "once per second and kind");
        // The store is back.
        assert_eq!(server.statuses("/login", 2).await, [200; 2]);
    });
}

async fn refused_for_lack_of_a_store(server: &Server) {
    let refused = server.get("/login").await;
    assert_eq!(refused.status(), 503);
    assert_eq!(header(&refused, "ratelimit"), None, "nothing is known about the quota");
    assert!(header(&refused, "retry-after").is_some());
    let problem = json(&refused);
    let kind = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    assert_eq!(problem["type"], kind);
    assert_eq!(problem["violated-policies"], serde_json::json!(["login"]));
}

#[test]
fn the_mode_can_be_chosen_outage_by_outage() {
    runtime().block_on(async {
        let limiter = limiter(vec![Fault::After; 3], &Log::default());
        let outages = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&outages);
        let layer = RateLimitLayer::builder(limiter)
            .limit(per_minute("p", 100), peer())
            .choose_on_outage(move |outage| match count.fetch_add(1, Relaxed) {
                0 => outage.mode,
                _ => OutageMode::Closed,
            });
        let server = crate::support::hello(layer.build().unwrap()).await;
        assert_eq!(server.statuses("/", 4).await, [200, 503, 503, 200]);
        assert_eq!(outages.load(Relaxed), 3);
    });
}

#[test]
fn what_is_no_outage_never_fails_open() {
    runtime().block_on(async {
        let limiter = limiter(vec![Fault::Garbage], &Log::default());
        let layer = RateLimitLayer::builder(limiter)
            .limit(per_minute("p", 100), peer())
            .on_outage(OutageMode::Open);
        let server = crate::support::hello(layer.build().unwrap()).await;
        let refused = server.get("/").await;
        assert_eq!(
            (refused.status().as_u16(), &json(&refused)["code"]),
            (500, &"corrupt_state".into())
        );
    });
}

/// The two routes of the test below, over one Redis: a public one and a login.
async fn routes<D: Decide + Clone>(limiter: &D, counted: &Arc<[AtomicU64; 2]>) -> Server {
    let layer = |index: usize, policy, mode| {
        let counted = Arc::clone(counted);
        RateLimitLayer::builder(limiter.clone())
            .limit(per_minute(policy, 100_000), peer())
            .choose_on_outage(move |outage| {
                assert!(matches!(outage.code, Code::StoreUnavailable | Code::Timeout));
                counted[index].fetch_add(1, Relaxed);
                mode
            })
            .build()
            .unwrap()
    };
    let app = Router::new()
        .route("/", get(|| async { "public" }).layer(layer(0, "public", OutageMode::Open)))
        .route("/login", get(|| async { "in" }).layer(layer(1, "login", OutageMode::Closed)));
    serve(app).await
}

#[test]
fn a_redis_that_is_killed_under_traffic_takes_no_public_route_down() {
    let redis = Redis::start().unwrap();
    runtime().block_on(async {
        let log = Log::default();
        let clock = ManualClock::at(NOW);
        let store = redis::Redis::open(redis.url().parse().unwrap()).unwrap();
        let limiter = Limiter::with_clock(store, clock.clone()).observer(log.clone());
        let limiter = Arc::new(limiter.build());
        let counted = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let server = routes(&limiter, &counted).await;
        assert_eq!(server.statuses("/", 3).await, [200; 3]);
        assert_eq!(server.statuses("/login", 3).await, [200; 3]);

        let traffic: Vec<_> = (0..200)
            .map(|index| {
                let (server, path) = (server.clone(), ["/", "/login"][index % 2]);
                tokio::spawn(async move { (path, server.get(path).await.status().as_u16()) })
            })
            .collect();
        redis.kill().unwrap();
        for request in traffic {
            match request.await.unwrap() {
                ("/", status) => assert_eq!(status, 200, "the public route stays up"),
                (_, status) => assert!(matches!(status, 200 | 503), "a login got {status}"),
            }
        }
        assert_eq!(server.statuses("/", 10).await, [200; 10]);
        refused_for_lack_of_a_store(&server).await;
        assert_eq!(server.statuses("/login", 9).await, [503; 9]);

        let stats = limiter.stats();
        let chosen = [counted[0].load(Relaxed), counted[1].load(Relaxed)];
        assert_eq!([stats.degraded_open, stats.degraded_closed], chosen, "all of them are counted");
        assert!(chosen[0] >= 10 && chosen[1] >= 10, "{chosen:?}");
        let logged: Vec<OutageMode> = log.0.lock().unwrap().iter().map(|(mode, _)| *mode).collect();
        assert!(logged.contains(&OutageMode::Open) && logged.contains(&OutageMode::Closed));

        redis.restart().unwrap();
        let deadline = Deadline::after(Duration::from_secs(60));
        while server.get("/login").await.status() != 200 {
            assert!(!deadline.has_passed(), "logins work again once the store is back");
            clock.advance(Duration::from_secs(2));
        }
    });
}
