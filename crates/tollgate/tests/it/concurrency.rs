//! Exactness under concurrency, through the limiter: threads, and futures that interleave.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tollgate::store::{BoxStore, Store};
use tollgate::{Admission, Limiter, ManualClock};
use tollgate_testkit::model::Kind;
use tollgate_testkit::rng::Rng;
use tollgate_testkit::runtime::{block_on, join_all};

use crate::support::{NOW, limit_of, memory, per_hour, stores};

const HOUR: Duration = Duration::from_secs(3_600);
const THREADS: u64 = 8;

#[test]
fn of_200_synchronous_checks_from_threads_50_pass() {
    for kind in Kind::ALL {
        let limit = limit_of(kind, 50, HOUR);
        let limiter = Limiter::with_clock(memory(), ManualClock::at(NOW)).build();
        let admitted = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let decision = limiter.sync().check(limit.charge("k")).unwrap();
                        admitted.fetch_add(u64::from(decision.is_allowed()), Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 50, "{}", kind.name());
    }
}

#[test]
fn of_200_checks_from_threads_50_pass_on_every_store() {
    for kind in Kind::ALL {
        for (name, store) in stores() {
            let limit = limit_of(kind, 50, HOUR);
            let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
            let admitted = AtomicU64::new(0);
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        for _ in 0..25 {
                            let decision = block_on(limiter.check(limit.charge("k"))).unwrap();
                            admitted.fetch_add(u64::from(decision.is_allowed()), Relaxed);
                        }
                    });
                }
            });
            assert_eq!(admitted.into_inner(), 50, "{} on {name}", kind.name());
        }
    }
}

#[test]
fn of_200_interleaved_checks_50_pass_on_every_store() {
    for kind in Kind::ALL {
        for (name, store) in stores() {
            let limit = limit_of(kind, 50, HOUR);
            let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
            let decisions = block_on(join_all((0..200).map(|_| limiter.check(limit.charge("k")))));
            let admitted =
                decisions.iter().filter(|one| one.as_ref().unwrap().is_allowed()).count();
            assert_eq!(admitted, 50, "{} on {name}", kind.name());
        }
    }
}

/// Threads admit random combinations; every limit is charged exactly for what was admitted.
fn combinations_charge_exactly(name: &str, store: BoxStore, rounds: u64) {
    let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
    // The route runs out, so that many combinations are denied while others are under way.
    let limits = [per_hour("ip", 3_000), per_hour("user", 2_000), per_hour("route", 700)];
    let subjects = ["a", "b"];
    let spent: [[AtomicU64; 2]; 3] = Default::default();
    let denied = AtomicU64::new(0);
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (limiter, limits, spent, denied) = (&limiter, &limits, &spent, &denied);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                for _ in 0..rounds {
                    let mut order = [0, 1, 2];
                    order.rotate_left(usize::try_from(rng.below(3)).unwrap());
                    let of = order.map(|limit| (limit, usize::try_from(rng.below(2)).unwrap()));
                    let charges = of.map(|(limit, who)| limits[limit].charge(subjects[who]));
                    let admission = Admission::of(&charges);
                    if block_on(limiter.check(&admission)).unwrap().is_allowed() {
                        for (limit, who) in of {
                            spent[limit][who].fetch_add(1, Relaxed);
                        }
                    } else {
                        denied.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    for (limit, spent) in limits.iter().zip(&spent) {
        for (subject, spent) in subjects.iter().zip(spent) {
            let forecast = block_on(limiter.forecast(limit.charge(subject))).unwrap();
            let context = format!("{name}: {} of {subject}", limit.policy());
            assert_eq!(forecast.limit - forecast.spendable_now, spent.load(Relaxed), "{context}");
        }
    }
    if THREADS * rounds > 1_400 {
        assert!(denied.into_inner() > 0, "{name}: the route never ran out");
    }
}

#[test]
fn concurrent_combinations_charge_every_limit_exactly() {
    for (name, store) in stores() {
        let rounds = if store.capability().in_process { 500 } else { 200 };
        combinations_charge_exactly(name, store, rounds);
    }
}

#[test]
fn a_request_id_is_charged_once_by_any_number_of_threads() {
    for (name, store) in stores() {
        let limit = per_hour("p", 100);
        let limiter = Limiter::with_clock(store, ManualClock::at(NOW)).build();
        let ids: Vec<String> = (0..10).map(|id| format!("id-{id}")).collect();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for id in &ids {
                        let charges = [limit.charge("k")];
                        let once = tollgate::RequestId::new(id).unwrap();
                        let admission = Admission::of(&charges).request_id(once);
                        assert!(block_on(limiter.check(&admission)).unwrap().is_allowed());
                    }
                });
            }
        });
        let left = block_on(limiter.forecast(limit.charge("k"))).unwrap().spendable_now;
        assert_eq!(left, 90, "{name}");
    }
}
