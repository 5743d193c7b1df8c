//! A slot that stays halfway between two nodes: calls that need keys of both get TRYAGAIN from a
//! cluster that answers. That is contention: it admits nothing, whatever way a charge takes.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tollgate_core::store::{CallContext, Retries, Store};
use tollgate_core::{
    Admission, Charge, Code, Decision, Error, Limit, Limiter, ManualClock, OutageMode, Quota, Rule,
    algorithm as a,
};
use tollgate_redis::{Config, Redis};
use tollgate_test_servers::RedisCluster;
use tollgate_testkit::runtime::join_all;

use super::custom::cooldown;
use super::{run, store};

const UNITS: u64 = 1_000;
const DAY: Duration = Duration::from_secs(86_400);

/// A subject with three keys in one slot that stays halfway: two are still at the source, one is at
/// the target.
struct Halfway {
    cluster: RedisCluster,
    url: String,
    store: Redis,
    limits: [Limit; 3],
}

impl Halfway {
    /// Keys share calls within a slot.
    fn new(rule: impl Fn() -> Rule) -> Self {
        let cluster = RedisCluster::start(2).unwrap();
        let addr = cluster.nodes()[0].addr();
        let options = "connect_timeout_ms=10000&reply_timeout_ms=60000";
        let url = format!("redis-cluster://{addr}?{options}");
        let store = store(&url);
        let limits = ["one", "two", "three"].map(|policy| {
            let limit = Limit::with_rule(policy, rule()).unwrap().with_prefix("halfway").unwrap();
            limit.on_outage(OutageMode::Open)
        });
        for limit in &limits {
            run(store.admit(&Admission::of(&[limit.charge("a")]), CallContext::store_clock()))
                .unwrap();
        }
        let slot = cluster.slot_of_key(&limits[0].key("a").to_text()).unwrap();
        let to = 1 - cluster.owner(slot).unwrap();
        let mut moving = cluster.begin_move(slot, to).unwrap();
        assert_eq!(moving.move_keys(1).unwrap(), 1);
        // It is not finished.
        drop(moving);
        Self { cluster, url, store, limits }
    }

    /// Its deadline never expires.
    fn limiter(&self) -> Limiter<Redis> {
        Limiter::with_clock(self.store.clone(), ManualClock::at(0)).build()
    }

    /// How often the nodes have answered TRYAGAIN.
    fn refusals(&self) -> u64 {
        let refusals = self.cluster.nodes().iter().map(|node| {
            let info = node.client().unwrap().call(&["INFO", "errorstats"]).unwrap();
            let info = info.text().unwrap().to_owned();
            let told = info.lines().find_map(|line| line.strip_prefix("errorstat_TRYAGAIN:count="));
            told.map_or(0, |count| count.parse::<u64>().unwrap())
        });
        refusals.sum()
    }

    /// The deadline expires while the call waits between two attempts: the waits are long.
    fn out_of_time(&self, charges: &[Charge<'_>]) -> Result<Decision, Error> {
        let hour = Duration::from_secs(3_600);
        let waits = Retries::default().base_backoff(hour).max_backoff(hour);
        let config: Config = self.url.parse().unwrap();
        let clock = ManualClock::at(0);
        let store = Redis::open(config.retries(waits)).unwrap();
        let limiter = Limiter::with_clock(store, clock.clone()).build();
        run(async {
            let before = self.refusals();
            let admission = Admission::of(charges);
            let mut call = pin!(limiter.check(&admission));
            let mut polls_after = 0;
            while polls_after < 100 {
                let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
                assert!(polled.is_pending(), "it was decided over two nodes at once");
                polls_after += u64::from(self.refusals() > before);
                tokio::task::yield_now().await;
            }
            clock.advance(Duration::from_secs(60));
            call.await
        })
    }
}

fn gcra() -> Rule {
    Rule::new(a::Gcra::new(Quota::new(UNITS, DAY)).unwrap())
}

fn refused(answer: Result<Decision, Error>) {
    let error = answer.expect_err("admitted, or decided over two nodes at once");
    assert_eq!(error.code(), Code::ConflictExhausted, "{error}");
}

/// All at once by one script; decided in Rust and swapped; and with a key of another slot, one slot
/// after another.
#[test]
fn several_charges_are_refused() {
    let mut told = Vec::new();
    for rule in [gcra, || cooldown(UNITS, None)] {
        let halfway = Halfway::new(rule);
        let [one, two, three] = &halfway.limits;
        let together = [one.charge("a"), two.charge("a"), three.charge("a")];
        let over_slots = [one.charge("a"), two.charge("a"), three.charge("a"), one.charge("b")];
        let is_scripted = one.charge("a").rule().scripted_step().is_some();
        for charges in [&together[..], &over_slots[..]] {
            if charges.len() > together.len() && !is_scripted {
                continue;
            }
            // As long as it takes.
            let limiter = halfway.limiter();
            refused(run(limiter.check(charges)));
            // Less than that.
            refused(halfway.out_of_time(charges));
        }
        told.push(halfway.refusals());
    }
    println!("told {told:?} times to try again");
}

/// Callers who wait at the same moment share calls, over several keys of their slot. Each of those
/// keys is at one of the nodes, so no caller waits until the slot has moved.
#[test]
fn single_charges_that_share_a_call_are_decided() {
    let halfway = Halfway::new(gcra);
    let limiter = halfway.limiter();
    let decided = |answers: Vec<Result<Decision, Error>>| {
        let decisions: Vec<Decision> = answers.into_iter().map(Result::unwrap).collect();
        assert!(decisions.iter().all(|decision| decision.is_allowed()));
        assert!(decisions.iter().all(|decision| decision.degraded.is_none()), "let in");
    };
    let before = halfway.refusals();
    // On a busy machine a call may be answered before the next caller waits.
    let mut spent = 0;
    while halfway.refusals() == before {
        assert!(spent < 200, "no callers shared a call");
        decided(run(join_all((0..60).map(|at| limiter.check(halfway.limits[at % 3].charge("a"))))));
        spent += 20;
    }
    let after = halfway.refusals();
    let batch: Vec<_> = (0..30).map(|at| halfway.limits[at % 3].charge("a")).collect();
    decided(run(limiter.check_batch(&batch)));
    assert!(halfway.refusals() > after, "the batch did not share a call");
    // One unit before the slot moved, those and 10 after that.
    for limit in &halfway.limits {
        let forecast = run(limiter.peek(limit.charge("a"))).unwrap();
        assert_eq!(forecast.remaining, UNITS - spent - 11);
    }
}
