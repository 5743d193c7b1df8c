//! A breaker for each server, which counts events: many calls that one lost connection or one
//! silence takes down are one event.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::authoring::Key;
use tollgate::store::{CallContext, Capability, Endpoint, Evidence, LastAnswer, Loaded, Store};
use tollgate::{
    Admission, Charge, Code, Decision, Error, Limit, Limiter, ManualClock, OutageMode, Result,
};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::runtime::{block_on, join_all};

use crate::support::{Call, NOW, per_hour, poll};

const DEADLINE: Duration = Duration::from_millis(100);

/// What a server does with a call.
#[derive(Clone, Debug)]
enum Server {
    Up,
    Silent,
    /// Waits in a queue of which rounds are answered.
    Behind,
    Down(Error),
    /// Answers one call, and then its connection is lost.
    LostAfterOne,
}

/// A store of three servers. The first letter of a subject says which one holds it: `a`, `b`, `c`.
#[derive(Debug)]
struct Servers {
    states: ReferenceStore,
    servers: Mutex<(Vec<Server>, u64)>,
    /// How long the last answer took.
    last: Mutex<Option<Duration>>,
}

impl Servers {
    fn set(&self, server: usize, to: Server) {
        self.servers.lock().unwrap().0[server] = to;
    }

    /// Calls that reached a server so far.
    fn calls(&self) -> u64 {
        self.servers.lock().unwrap().1
    }

    async fn call(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<()> {
        for charge in charges {
            let server = {
                let mut servers = self.servers.lock().unwrap();
                servers.1 += 1;
                let server = &mut servers.0[number_of(charge.key())];
                match server {
                    Server::LostAfterOne => std::mem::replace(server, Server::Down(lost())),
                    _ => server.clone(),
                }
            };
            match server {
                Server::Up | Server::LostAfterOne => {}
                Server::Silent => {
                    cx.sent();
                    pending::<()>().await;
                }
                Server::Behind => {
                    cx.waiting();
                    cx.others_served();
                    pending::<()>().await;
                }
                Server::Down(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn number_of(key: Key<'_>) -> usize {
    "abc".find(&key.subject[..1]).unwrap()
}

impl Store for Servers {
    fn capability(&self) -> Capability {
        let mut capability = self.states.capability();
        capability.in_process = false;
        capability
    }

    fn endpoint(&self, key: Key<'_>) -> Endpoint {
        Endpoint::numbered(u16::try_from(number_of(key)).unwrap())
    }

    fn last_answer(&self, _: Key<'_>) -> Option<LastAnswer> {
        self.last.lock().unwrap().map(|took| LastAnswer::new("server:6379", took))
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.call(admission.charges(), cx).await?;
        self.states.admit(admission, cx).await
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.call(charges, cx).await?;
        self.states.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.states.reset(key, cx).await
    }
}

struct Bench {
    clock: ManualClock,
    store: Arc<Servers>,
    limiter: Limiter<Arc<Servers>>,
    limit: Limit,
}

impl Bench {
    fn new() -> Self {
        let clock = ManualClock::at(NOW);
        let servers = Mutex::new((vec![Server::Up; 3], 0));
        let store =
            Arc::new(Servers { states: ReferenceStore::new(), servers, last: Mutex::new(None) });
        let limiter = Limiter::with_clock(Arc::clone(&store), clock.clone()).build();
        Self { clock, store, limiter, limit: per_hour("p", 1_000) }
    }

    fn check(&self, subject: &str) -> Result<Decision> {
        block_on(self.limiter.check(self.limit.charge(subject)))
    }

    /// Whether the store decided.
    fn is_decided(&self, subject: &str) -> bool {
        self.check(subject).unwrap().degraded.is_none()
    }

    /// Checks, and says whether the store was called.
    fn calls_the_store(&self, subject: &str) -> bool {
        let before = self.store.calls();
        drop(self.check(subject));
        self.store.calls() > before
    }

    fn begin<'a>(&'a self, subject: &'a str) -> Call<'a, Result<Decision>> {
        let mut call: Call<'_, _> = Box::pin(self.limiter.check(self.limit.charge(subject)));
        assert!(poll(&mut call).is_none());
        call
    }

    /// One call that waits for its deadline: what it gets.
    fn time_out(&self, subject: &str) -> Result<Decision> {
        let mut call = self.begin(subject);
        self.clock.advance(DEADLINE);
        poll(&mut call).unwrap()
    }
}

fn lost() -> Error {
    Error::new(Code::StoreUnavailable, "the connection was lost").as_event()
}

#[test]
fn one_lost_connection_is_one_event_however_many_calls_it_takes_down() {
    let bench = Bench::new();
    let error = lost();
    // Under way, or begun before there is another connection.
    for error in [error.clone(), error.not_sent()] {
        bench.store.set(0, Server::Down(error));
        for _ in 0..500 {
            assert!(!bench.is_decided("a"));
        }
    }
    bench.store.set(0, Server::Up);
    assert!(bench.is_decided("a"), "the breaker is closed");
    assert_eq!(bench.limiter.stats().breaker_rejections, 0);
}

#[test]
fn five_lost_connections_in_a_row_open_the_breaker() {
    let bench = Bench::new();
    let lose = |times| {
        for _ in 0..times {
            bench.store.set(0, Server::Down(lost()));
            (0..3).for_each(|_| assert!(bench.calls_the_store("a")));
        }
    };
    lose(4);
    bench.store.set(0, Server::Up);
    assert!(bench.is_decided("a"), "an answer in between");
    lose(4);
    bench.store.set(0, Server::Down(lost()));
    assert!(bench.calls_the_store("a"));
    assert!(!bench.calls_the_store("a"), "open");
    bench.store.set(0, Server::Up);
    bench.clock.advance(Duration::from_millis(125));
    assert!(bench.is_decided("a"), "a probe after 75 to 125 ms");
    assert!(bench.is_decided("a"));
}

#[test]
fn calls_that_are_under_way_together_and_time_out_are_one_event() {
    let bench = Bench::new();
    bench.store.set(0, Server::Silent);
    for _ in 0..2 {
        let mut calls: Vec<_> = (0..50).map(|_| bench.begin("a")).collect();
        bench.clock.advance(DEADLINE);
        for call in &mut calls {
            assert_eq!(poll(call).unwrap().unwrap().degraded, Some(OutageMode::Open));
        }
    }
    bench.store.set(0, Server::Up);
    assert!(bench.is_decided("a"), "the breaker is closed");
}

#[test]
fn a_server_that_answers_nothing_for_three_deadlines_opens_the_breaker() {
    let bench = Bench::new();
    bench.store.set(0, Server::Silent);
    for _ in 0..2 {
        bench.time_out("a").unwrap();
        drop(bench.begin("a"));
    }
    bench.time_out("a").unwrap();
    assert!(!bench.calls_the_store("a"), "open after 300 ms");
    // A slow server is found to be slow again by each probe, which delays one call.
    bench.clock.advance(Duration::from_millis(125));
    let probe = bench.begin("a");
    assert!(!bench.calls_the_store("a"), "one at a time");
    drop(probe);
}

#[test]
fn many_callers_find_a_silent_server_within_three_deadlines() {
    let bench = Bench::new();
    bench.store.set(0, Server::Silent);
    let mut calls = std::collections::VecDeque::new();
    let opened = (0..400).find(|_| {
        let mut call: Call<'_, _> = Box::pin(bench.limiter.check(bench.limit.charge("a")));
        let is_refused = poll(&mut call).is_some();
        calls.push_back(call);
        bench.clock.advance(Duration::from_millis(1));
        if calls.len() == 100 {
            assert!(poll(calls.pop_front().as_mut().unwrap()).is_some(), "its deadline");
        }
        is_refused
    });
    assert!(opened.is_some_and(|ms| (200..300).contains(&ms)), "after {opened:?} ms");
}

#[test]
fn calls_that_time_out_long_after_each_other_are_no_silence() {
    let bench = Bench::new();
    for _ in 0..4 {
        bench.store.set(0, Server::Silent);
        bench.time_out("a").unwrap();
        bench.clock.advance(Duration::from_secs(10));
    }
    bench.store.set(0, Server::Up);
    assert!(bench.is_decided("a"));
}

#[test]
fn a_dead_server_leaves_the_keys_of_others_alone() {
    let bench = Bench::new();
    for _ in 0..5 {
        bench.store.set(1, Server::Down(lost()));
        assert!(bench.calls_the_store("b"));
    }
    assert!(!bench.calls_the_store("b") && bench.is_decided("a") && bench.is_decided("c"));
    let before = bench.store.calls();
    let charges = ["a", "b", "c", "b"].map(|subject| bench.limit.charge(subject));
    let decided = block_on(bench.limiter.check_batch(&charges));
    let degraded = decided.into_iter().map(|one| one.unwrap().degraded).collect::<Vec<_>>();
    assert_eq!(degraded, [None, Some(OutageMode::Open), None, Some(OutageMode::Open)]);
    assert_eq!(bench.store.calls(), before + 2, "the dead one is not called");
    // An admission needs all its servers.
    let both = ["a", "b"].map(|subject| bench.limit.charge(subject));
    let decision = block_on(bench.limiter.check(&Admission::of(&both))).unwrap();
    assert_eq!(decision.degraded, Some(OutageMode::Open));
    assert!(bench.is_decided("a"));
}

#[test]
fn each_server_of_a_batch_is_judged_by_its_own_admissions() {
    let bench = Bench::new();
    for _ in 0..5 {
        bench.store.set(1, Server::Down(lost()));
        let charges = ["b", "a", "b"].map(|subject| bench.limit.charge(subject));
        let decided = block_on(bench.limiter.check_batch(&charges));
        assert!(decided[1].as_ref().unwrap().degraded.is_none());
    }
    assert!(!bench.calls_the_store("b") && bench.is_decided("a"));
    bench.store.set(1, Server::Up);
    bench.clock.advance(Duration::from_millis(125));
    let charges = ["b", "a"].map(|subject| bench.limit.charge(subject));
    let decided = block_on(bench.limiter.check_batch(&charges));
    assert!(decided.into_iter().all(|one| one.unwrap().degraded.is_none()), "the probe");
    assert!(bench.is_decided("b"));
}

#[test]
fn a_server_that_answers_a_part_of_a_batch_has_answered() {
    let bench = Bench::new();
    for _ in 0..6 {
        bench.store.set(1, Server::LostAfterOne);
        let charges = ["b", "b"].map(|subject| bench.limit.charge(subject));
        let decided = block_on(bench.limiter.check_batch(&charges));
        let degraded = decided.into_iter().map(|one| one.unwrap().degraded).collect::<Vec<_>>();
        assert_eq!(degraded, [None, Some(OutageMode::Open)]);
    }
    assert!(bench.calls_the_store("b"), "the breaker is closed");
}

#[test]
fn a_server_that_answers_after_the_deadline_is_named_slow_and_no_other() {
    let bench = Bench::new();
    bench.store.set(0, Server::Silent);
    for (took, is_slow) in [(99, false), (100, false), (101, true), (5_000, true)] {
        *bench.store.last.lock().unwrap() = Some(Duration::from_millis(took));
        let mut call: Call<'_, _> = Box::pin(bench.limiter.peek(bench.limit.charge("a")));
        assert!(poll(&mut call).is_none());
        bench.clock.advance(DEADLINE);
        let error = poll(&mut call).unwrap().unwrap_err();
        let names_it = error.to_string().contains("server:6379 is too slow");
        assert_eq!((error.code(), names_it), (Code::Timeout, is_slow), "{took} ms: {error}");
        bench.clock.advance(Duration::from_secs(10));
    }
}

/// A caller that waited behind others has seen answers from before the silence.
#[test]
fn a_caller_behind_others_is_no_sign_of_an_answer() {
    let bench = Bench::new();
    for _ in 0..4 {
        bench.store.set(0, Server::Down(lost()));
        assert!(bench.calls_the_store("a"));
    }
    bench.store.set(0, Server::Behind);
    assert_eq!(bench.time_out("a").unwrap_err().code(), Code::QueueFull);
    bench.store.set(0, Server::Down(lost()));
    assert!(bench.calls_the_store("a"));
    assert!(!bench.calls_the_store("a"), "five events in a row");
}

#[test]
fn a_reader_and_a_writer_share_the_breaker_of_their_server() {
    let bench = Bench::new();
    for _ in 0..5 {
        bench.store.set(2, Server::Down(lost()));
        assert!(block_on(bench.limiter.peek(bench.limit.charge("c"))).is_err());
    }
    assert!(!bench.calls_the_store("c"));
    let peeks = ["a", "b"].map(|subject| bench.limiter.peek(bench.limit.charge(subject)));
    assert!(block_on(join_all(peeks)).into_iter().all(|peeked| peeked.is_ok()));
}
