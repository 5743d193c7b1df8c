//! Servers that die, hang, forget, change and lose replies, under load: what is admitted, what is
//! lost, and how long it takes. The figures are printed; the bounds are asserted.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Code, Limiter, OutageMode, RequestId};
use tollgate_redis::Redis;
use tollgate_test_servers::{FaultProxy, Mode, Redis as Server, RedisCluster, RedisSentinel};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::runtime::join_all;

use super::load::{Load, Tally, month};
use super::{RUNTIME, cluster_url, run, store};

const CALLERS: usize = 32;
const UNITS: u64 = 20_000;
/// When the fault comes.
const EARLY: u64 = UNITS / 4;

fn tell(what: &str, tally: &Tally, healthy_after: Duration) {
    let admitted = tally.admitted.load(Ordering::SeqCst);
    println!(
        "{what}: {admitted} of {UNITS} admitted and acknowledged ({} over, {} charged without an \
         answer at most), {} calls failed, of {} the outcome was unknown, healthy after {} ms",
        admitted.saturating_sub(UNITS),
        UNITS.saturating_sub(admitted),
        tally.failed.load(Ordering::SeqCst),
        tally.unknown.load(Ordering::SeqCst),
        healthy_after.as_millis(),
    );
}

#[test]
fn a_durable_server_that_is_killed_and_restarted_over_admits_nothing() {
    let redis = Server::builder().durable().start().unwrap();
    let load = Load::start(&store(&redis.url()), &month("killed", UNITS), CALLERS);
    load.wait_beyond(EARLY);
    let from = Instant::now();
    redis.kill().unwrap();
    redis.restart().unwrap();
    load.wait_beyond(load.admitted());
    let healthy = from.elapsed();
    let tally = load.finish();
    tell("killed and restarted, durable", &tally, healthy);
    let admitted = tally.admitted.load(Ordering::SeqCst);
    assert!(admitted <= UNITS, "over-admitted");
    // Only what was not acknowledged can be missing.
    assert!(UNITS - admitted <= tally.unknown.load(Ordering::SeqCst));
}

#[test]
fn a_volatile_server_that_is_killed_forgets_no_more_than_it_knew() {
    let redis = Server::start().unwrap();
    let load = Load::start(&store(&redis.url()), &month("volatile", UNITS), CALLERS);
    load.wait_beyond(EARLY);
    let from = Instant::now();
    redis.kill().unwrap();
    // Every caller may hold one answer of the dead server that it has not counted yet.
    let before = load.admitted() + CALLERS as u64;
    redis.restart().unwrap();
    load.wait_beyond(before);
    let healthy = from.elapsed();
    let tally = load.finish();
    tell("killed and restarted, in memory only", &tally, healthy);
    let admitted = tally.admitted.load(Ordering::SeqCst);
    assert!(admitted <= UNITS + before, "more than what was forgotten came back");
}

#[test]
fn scripts_flushed_under_load_change_nothing() {
    let redis = Server::start().unwrap();
    let load = Load::start(&store(&redis.url()), &month("flushed", UNITS), CALLERS);
    let mut client = redis.client().unwrap();
    let mut flushes = 0;
    while load.admitted() < UNITS {
        client.call(&["SCRIPT", "FLUSH"]).unwrap().ok().unwrap();
        flushes += 1;
    }
    let tally = load.finish();
    println!("{flushes} flushes");
    tell("scripts flushed", &tally, Duration::ZERO);
    assert_eq!(tally.admitted.load(Ordering::SeqCst), UNITS);
    assert_eq!(tally.failed.load(Ordering::SeqCst), 0);
}

#[test]
fn a_failover_over_admits_no_more_than_was_not_replicated() {
    let sentinel = RedisSentinel::start().unwrap();
    let hosts: Vec<String> =
        sentinel.sentinels().iter().map(|server| server.addr().to_string()).collect();
    let url = format!("redis-sentinel://{}/{}", hosts.join(","), sentinel.name());
    let load = Load::start(&store(&url), &month("failover", UNITS), CALLERS);
    load.wait_beyond(EARLY);
    let old = sentinel.master().unwrap();
    old.kill().unwrap();
    let before = load.admitted();
    let healthy = load.wait_beyond(before + CALLERS as u64);
    let tally = load.finish();
    tell("failover by sentinel", &tally, healthy);
    // What the old master had acknowledged and not sent on is forgotten: at most all of it.
    assert!(tally.admitted.load(Ordering::SeqCst) <= UNITS + before + CALLERS as u64);
}

#[test]
fn a_slot_that_moves_under_load_changes_nothing() {
    let cluster = RedisCluster::start(3).unwrap();
    let limit = month("moved", UNITS);
    let store = store(&cluster_url(&cluster));
    let load = Load::start(&store, &limit, CALLERS);
    let slot = cluster.slot_of_key(&limit.key("shared").to_text()).unwrap();
    let to = (cluster.owner(slot).unwrap() + 1) % 3;
    load.wait_beyond(EARLY);
    let from = Instant::now();
    cluster.move_slots([slot], to).unwrap();
    let took = from.elapsed();
    let tally = load.finish();
    tell("a slot moved", &tally, took);
    assert_eq!(cluster.owner(slot).unwrap(), to);
    let admitted = tally.admitted.load(Ordering::SeqCst);
    assert!(admitted <= UNITS, "over-admitted");
    assert!(UNITS - admitted <= tally.unknown.load(Ordering::SeqCst));
}

#[test]
fn a_hung_server_is_answered_for_within_the_deadline() {
    let redis = Server::start().unwrap();
    let limit = month("hung", UNITS).on_outage(OutageMode::Closed);
    let _in_runtime = RUNTIME.enter();
    let store = Redis::open(redis.url().parse().unwrap()).unwrap();
    let deadline = Duration::from_millis(100);
    let limiter = Limiter::builder(store).deadline(deadline).build();
    assert!(run(limiter.check(limit.charge("shared"))).unwrap().is_allowed());
    redis.stop_answering().unwrap();
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        let from = Instant::now();
        let decision = run(limiter.check(limit.charge("shared"))).unwrap();
        longest = longest.max(from.elapsed());
        assert_eq!(decision.degraded, Some(OutageMode::Closed));
    }
    redis.go_on().unwrap();
    let from = Instant::now();
    while run(limiter.check(limit.charge("shared"))).unwrap().degraded.is_some() {
        assert!(from.elapsed() < super::load::SOON, "it does not recover");
    }
    println!(
        "hung: the longest answer took {} ms of {} ms, healthy after {} ms",
        longest.as_millis(),
        deadline.as_millis(),
        from.elapsed().as_millis()
    );
    assert!(longest < 20 * deadline, "{longest:?}");
}

#[test]
fn a_lost_reply_charges_once_under_a_request_id() {
    let redis = Server::start().unwrap();
    let proxy = FaultProxy::to(redis.addr()).unwrap();
    let store = store(&format!("redis://{}?reply_timeout_ms=200", proxy.addr()));
    let limit = month("lost", 100);
    let charges = [limit.charge("shared")];
    let ids: Vec<String> = (0..20).map(|number| format!("request {number}")).collect();
    let admit = async |id: &str| {
        let admission = Admission::of(&charges).request_id(RequestId::new(id).unwrap());
        let outcome = store.admit(&admission, CallContext::store_clock()).await?;
        let admitted = decisions_of(&admission, &outcome).unwrap().admitted;
        Ok::<_, tollgate_core::Error>((admitted, outcome.replayed.is_some()))
    };
    // The connection stands before replies are lost: else the handshake would be.
    assert_eq!(run(admit("warm up")).unwrap(), (true, false));
    proxy.set(Mode::DropReplies).unwrap();
    let lost = run(join_all(ids.iter().map(|id| admit(id))));
    // Some may have waited for a reply to those before them, and were never sent.
    let mut was_sent = Vec::new();
    for outcome in lost {
        let error = outcome.unwrap_err();
        assert!(error.code().is_outage(), "{error}");
        was_sent.push(!error.is_not_sent());
    }
    assert!(was_sent.contains(&true));
    proxy.set(Mode::Pass).unwrap();
    let from = Instant::now();
    while run(admit("warm up")).is_err() {
        assert!(from.elapsed() < super::load::SOON, "it does not recover");
    }
    let again: Vec<_> = run(join_all(ids.iter().map(|id| admit(id))));
    for (outcome, was_sent) in again.into_iter().zip(&was_sent) {
        let (admitted, replayed) = outcome.unwrap();
        assert!(admitted && replayed == *was_sent, "a charge that was sent had been made");
    }
    let admission = Admission::of(&charges);
    let outcome = run(store.admit(&admission, CallContext::store_clock())).unwrap();
    let left = decisions_of(&admission, &outcome).unwrap().decisions.remove(0).remaining;
    let replays = was_sent.iter().filter(|was_sent| **was_sent).count();
    println!("lost replies: 20 charges without an answer, {replays} replays, {left} of 100 left");
    assert_eq!(left, 100 - 1 - 20 - 1);
}

#[test]
fn a_wrong_password_is_an_outage_that_names_no_secret() {
    let redis = Server::builder().password("right").start().unwrap();
    let store = store(&format!("redis://:wrong-secret@{}", redis.addr()));
    let limit = month("password", 10);
    let error = run(store.admit(&Admission::of(&[limit.charge("x")]), CallContext::store_clock()))
        .unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    let text = format!("{error} {error:?} {store:?}");
    assert!(!text.contains("wrong-secret"), "{text}");
}
