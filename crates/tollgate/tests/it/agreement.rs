//! One decision, whichever way it is asked for: synchronously, asynchronously, as an admission of
//! one charge, in a batch of one, and over every store.

use tollgate::store::{BoxStore, Memory};
use tollgate::{Admission, Charge, Decision, Limit, Limiter, ManualClock, Result};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::model::Kind;
use tollgate_testkit::runtime::block_on;
use tollgate_testkit::trace::{Event, Mix, Trace};

use crate::support::{NOW, compare_and_swap, memory};

const SEEDS: u64 = 6;
const EVENTS: u64 = 1_500;

/// How a decision is asked for.
#[derive(Clone, Copy, Debug)]
enum Way {
    Check,
    CheckAll,
    CheckMany,
    CheckAllMany,
}

/// Every way over a store of its own, all on one clock.
struct Candidates {
    clock: ManualClock,
    sync: Limiter<Memory>,
    all_sync: Limiter<Memory>,
    others: Vec<(&'static str, Way, Limiter<BoxStore>)>,
}

impl Candidates {
    fn new() -> Self {
        let clock = ManualClock::at(NOW);
        let of = |store: BoxStore| Limiter::with_clock(store, clock.clone()).build();
        let memory_of = || Limiter::with_clock(memory(), clock.clone()).build();
        let others = vec![
            ("memory", Way::Check, of(BoxStore::new(memory()))),
            ("memory", Way::CheckAll, of(BoxStore::new(memory()))),
            ("memory", Way::CheckMany, of(BoxStore::new(memory()))),
            ("memory", Way::CheckAllMany, of(BoxStore::new(memory()))),
            ("reference", Way::Check, of(BoxStore::new(ReferenceStore::new()))),
            ("reference", Way::CheckMany, of(BoxStore::new(ReferenceStore::new()))),
            ("compare_and_swap", Way::Check, of(BoxStore::new(compare_and_swap()))),
            ("compare_and_swap", Way::CheckMany, of(BoxStore::new(compare_and_swap()))),
        ];
        Self { sync: memory_of(), all_sync: memory_of(), others, clock }
    }

    /// The stores that can hold this limit: a long log is too large to swap whole.
    fn others(
        &self,
        limit: &Limit,
    ) -> impl Iterator<Item = &(&'static str, Way, Limiter<BoxStore>)> {
        let too_long = limit.rule().name() == "sliding_log" && limit.rule().ceiling() > 1_000;
        self.others.iter().filter(move |(store, ..)| !too_long || *store != "compare_and_swap")
    }

    /// The decision that all agree on.
    fn check(&self, charge: Charge<'_>, context: &str) -> Decision {
        let expected = self.sync.check_sync(charge).unwrap();
        let as_admission = self.all_sync.check_all_sync(&Admission::of(&[charge])).unwrap();
        assert_eq!(as_admission, expected, "check_all_sync, {context}");
        for (store, way, limiter) in self.others(charge.limit) {
            let decided = block_on(ask(limiter, *way, charge));
            assert_eq!(decided.unwrap(), expected, "{way:?} on {store}, {context}");
        }
        expected
    }
}

async fn ask(limiter: &Limiter<BoxStore>, way: Way, charge: Charge<'_>) -> Result<Decision> {
    let charges = [charge];
    let admission = Admission::of(&charges);
    match way {
        Way::Check => limiter.check(charge).await,
        Way::CheckAll => limiter.check_all(&admission).await,
        Way::CheckMany => limiter.check_many(&charges).await.remove(0),
        Way::CheckAllMany => limiter.check_all_many(&[admission]).await.remove(0),
    }
}

fn every_way_agrees(kind: Kind) {
    for seed in 0..SEEDS {
        println!("{} with seed {seed}", kind.name());
        let all = Candidates::new();
        let mut trace = Trace::new(kind, seed, Mix::STORE);
        let mut limit: Option<Limit> = None;
        let mut subject = String::new();
        let (mut keys, mut allowed, mut denied) = (0_u64, 0_u64, 0_u64);
        for step in 0..EVENTS {
            let event = trace.next_event();
            let context = format!("step {step} of seed {seed}: {event:?}");
            match event {
                Event::Fresh(quota) | Event::Change(quota) => {
                    if matches!(event, Event::Fresh(_)) {
                        keys += 1;
                        subject = format!("key {keys}");
                    }
                    // A state that some stores cannot hold would part them: leave it out.
                    let rule = quota.rule().unwrap();
                    if rule.name() != "sliding_log" || rule.ceiling() <= 1_000 {
                        limit = Some(Limit::with_rule("p", rule).unwrap());
                    } else {
                        limit = None;
                    }
                }
                Event::Check(now, cost) => {
                    let Some(limit) = &limit else { continue };
                    all.clock.set(now.reading());
                    let decision = all.check(limit.charge(&subject).cost(cost), &context);
                    trace.observe(now, cost, &decision);
                    allowed += u64::from(decision.is_allowed());
                    denied += u64::from(!decision.is_allowed());
                }
                Event::Peek(now, cost) => {
                    let Some(limit) = &limit else { continue };
                    all.clock.set(now.reading());
                    let charge = limit.charge(&subject).cost(cost);
                    let expected = block_on(all.sync.peek(charge)).unwrap();
                    for (store, _, limiter) in all.others(limit) {
                        assert_eq!(
                            block_on(limiter.peek(charge)).unwrap(),
                            expected,
                            "{store}, {context}"
                        );
                    }
                    assert_eq!(block_on(all.all_sync.peek(charge)).unwrap(), expected, "{context}");
                }
                Event::Forecast(now) => {
                    let Some(limit) = &limit else { continue };
                    all.clock.set(now.reading());
                    let expected = block_on(all.sync.forecast(limit, &subject)).unwrap();
                    for (store, _, limiter) in all.others(limit) {
                        let forecast = block_on(limiter.forecast(limit, &subject)).unwrap();
                        assert_eq!(forecast, expected, "{store}, {context}");
                    }
                }
                Event::Refund(now, cost, receipt) => {
                    let Some(limit) = &limit else { continue };
                    all.clock.set(now.reading());
                    let charge = limit.charge(&subject).cost(cost);
                    let expected = block_on(all.sync.refund(charge, receipt)).unwrap();
                    let other = block_on(all.all_sync.refund(charge, receipt)).unwrap();
                    assert_eq!(other, expected, "{context}");
                    for (store, _, limiter) in all.others(limit) {
                        let refunded = block_on(limiter.refund(charge, receipt)).unwrap();
                        assert_eq!(refunded, expected, "{store}, {context}");
                    }
                }
            }
        }
        assert!(allowed > 50 && denied > 50, "{allowed} allowed, {denied} denied: too one-sided");
    }
}

#[test]
fn every_way_to_ask_agrees_for_gcra() {
    every_way_agrees(Kind::Gcra);
}

#[test]
fn every_way_to_ask_agrees_for_token_bucket() {
    every_way_agrees(Kind::TokenBucket);
}

#[test]
fn every_way_to_ask_agrees_for_leaky_bucket() {
    every_way_agrees(Kind::LeakyBucket);
}

#[test]
fn every_way_to_ask_agrees_for_fixed_window() {
    every_way_agrees(Kind::FixedWindow);
}

#[test]
fn every_way_to_ask_agrees_for_sliding_window() {
    every_way_agrees(Kind::SlidingWindow);
}

#[test]
fn every_way_to_ask_agrees_for_sliding_log() {
    every_way_agrees(Kind::SlidingLog);
}
