//! What networks and servers do, and what callers get to know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tollgate_core::store::{CallContext, Retries, Store};
use tollgate_core::{Code, Limiter, OutageMode, Result};
use tollgate_denokv::DenoKv;
use tollgate_test_servers::shared::denokv;
use tollgate_test_servers::wait::Deadline;
use tollgate_test_servers::{DenoKv as Server, FaultProxy, Mode};
use tollgate_testkit::contention;

use crate::support::{
    NOW, TEST_TIMEOUT, block_on, config, join_all, limit, open, spent, take, take_once,
};

const WRITE: &str = "POST /v2/atomic_write ";

#[test]
fn a_slow_network_changes_nothing_but_the_time() {
    let proxy = FaultProxy::to(denokv().addr()).unwrap();
    proxy.set(Mode::Latency(Duration::from_millis(40))).unwrap();
    let ten = limit(10);
    let nodes = [(); 2].map(|()| open(&denokv().url_at(proxy.addr())));
    block_on(async {
        let checks = nodes.iter().flat_map(|node| (0..20).map(|_| take(node, &ten, "a")));
        let answers = join_all(checks).await;
        assert_eq!(answers.into_iter().filter(|answer| *answer.as_ref().unwrap()).count(), 10);
    });
}

/// Connections that are cut at any moment: a request that is repeated with its id is charged once.
#[test]
fn resets_lose_nothing_and_charge_nothing_twice() {
    const CHARGES: usize = 100;
    let proxy = FaultProxy::to(denokv().addr()).unwrap();
    let store = open(&denokv().url_at(proxy.addr()));
    let many = limit(1_000);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                proxy.reset().unwrap();
            }
        });
        let mut failures = 0_usize;
        for number in 0..CHARGES {
            let id = format!("id-{number}");
            loop {
                match block_on(take_once(&store, many.charge("a"), &id)) {
                    Ok(admitted) => break assert!(admitted),
                    Err(error) => assert_eq!(error.code(), Code::StoreUnavailable, "{error}"),
                }
                failures += 1;
                // Between two resets something must come through.
                if failures.is_multiple_of(20) {
                    let direct = open(&denokv().url());
                    assert!(block_on(take_once(&direct, many.charge("a"), &id)).unwrap());
                    break;
                }
            }
        }
        is_done.store(true, Relaxed);
        println!("{failures} attempts failed for {CHARGES} charges");
    });
    let spent = block_on(spent(&open(&denokv().url()), &many, "a"));
    assert_eq!(spent, u64::try_from(CHARGES).unwrap());
}

/// The server has written, and its answer is lost.
#[test]
fn a_write_whose_reply_is_lost_is_not_sent_again_and_its_id_charges_once() {
    let proxy = FaultProxy::counting(denokv().addr(), WRITE).unwrap();
    let url = denokv().url_at(proxy.addr());
    let hasty = DenoKv::open(config(&url).operation_timeout(Duration::from_secs(5))).unwrap();
    let many = limit(1_000);
    block_on(async {
        assert!(take(&hasty, &many, "a").await.unwrap());
        let before = proxy.traffic().counted;
        proxy.set(Mode::DropCounted).unwrap();
        let error = take_once(&hasty, many.charge("a"), "id").await.unwrap_err();
        assert_eq!((error.code(), error.is_not_sent()), (Code::Timeout, false), "{error}");
        assert_eq!(proxy.traffic().counted, before + 1, "it was sent again");
        assert_eq!(spent(&open(&denokv().url()), &many, "a").await, 2, "it was written");
        proxy.set(Mode::Pass).unwrap();
        assert!(take_once(&hasty, many.charge("a"), "id").await.unwrap());
        assert_eq!(spent(&hasty, &many, "a").await, 2, "it was charged twice");
    });
}

#[test]
fn a_blackhole_is_answered_within_the_deadline() {
    let proxy = FaultProxy::to(denokv().addr()).unwrap();
    let url = denokv().url_at(proxy.addr());
    let many = limit(1_000).on_outage(OutageMode::Closed);
    block_on(async {
        // The deadline of the limiter, though the store itself would wait for a minute.
        let limiter = Limiter::builder(open(&url)).deadline(Duration::from_millis(200)).build();
        assert!(limiter.store().load(&[many.charge("a")], CallContext::at(1)).await.is_ok());
        proxy.set(Mode::Blackhole).unwrap();
        let deadline = Deadline::after(TEST_TIMEOUT / 2);
        let decision = limiter.check(many.charge("a")).await.unwrap();
        assert_eq!(decision.degraded, Some(OutageMode::Closed));
        assert!(!deadline.has_passed(), "the deadline was not kept");
        // The deadline of the store, for connections that it has and for those that it makes.
        let hasty = config(&url).operation_timeout(Duration::from_millis(100));
        let hasty = DenoKv::open(hasty.connect_timeout(Duration::from_millis(100))).unwrap();
        let error = take(&hasty, &many, "a").await.unwrap_err();
        assert!(error.is_outage() && error.is_not_sent(), "{error}");
        assert!(!deadline.has_passed(), "the deadline was not kept");
    });
}

#[test]
fn a_stopped_server_is_an_outage_and_restarts_with_what_was_spent() {
    let server = Server::start().unwrap();
    let store = open(&server.url());
    let many = limit(1_000);
    block_on(async {
        assert!(take(&store, &many, "a").await.unwrap());
        server.kill().unwrap();
        let error = take(&store, &many, "a").await.unwrap_err();
        assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, true), "{error}");
        server.restart().unwrap();
        assert!(take(&store, &many, "a").await.unwrap());
        assert_eq!(spent(&store, &many, "a").await, 2);
    });
}

/// Races that are never won end, as contention and not as an outage.
#[test]
fn races_that_are_always_lost_are_a_conflict() {
    let url = denokv().url();
    let hasty = config(&url).retries(Retries::default().max_retries(0));
    let nodes: Vec<DenoKv> = (0..4).map(|_| DenoKv::open(hasty.clone()).unwrap()).collect();
    let many = limit(1 << 30);
    block_on(async {
        let mut acknowledged = 0;
        // Until a race is lost: with four stores, most rounds lose one.
        for _ in 0..1_000 {
            let answers: Vec<Result<bool>> =
                join_all(nodes.iter().map(|node| take(node, &many, "a"))).await;
            let lost = answers.iter().filter_map(|answer| answer.as_ref().err());
            let lost: Vec<Code> = lost.map(tollgate_core::Error::code).collect();
            acknowledged += u64::try_from(answers.len() - lost.len()).unwrap();
            assert!(lost.iter().all(|code| *code == Code::ConflictExhausted), "{lost:?}");
            if !lost.is_empty() {
                assert_eq!(spent(&nodes[0], &many, "a").await, acknowledged);
                return;
            }
        }
        panic!("no race was lost");
    });
}

/// A caller that loses races until its deadline is not admitted by an outage mode.
#[test]
fn callers_that_lose_races_are_never_admitted() {
    let url = denokv().url();
    let minutes = Duration::from_secs(600);
    let slow = Retries::default().base_backoff(minutes).max_backoff(minutes);
    let slow = DenoKv::open(config(&url).retries(slow)).unwrap();
    let loser = Arc::new(slow);
    let losses = || loser.lost_races();
    let stores = (Arc::clone(&loser), Arc::new(open(&url)));
    block_on(contention::losers_are_never_let_in(stores, losses, &limit(1 << 30), NOW));
}
