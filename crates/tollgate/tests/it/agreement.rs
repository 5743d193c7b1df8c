//! One decision, whichever way it is asked for: synchronously, asynchronously, under a request id
//! (which takes the way of several charges), in a batch of one, and over every store.

use std::thread;
use std::time::Duration;

use tollgate::store::{BoxStore, Memory};
use tollgate::{Charge, Decision, Limit, Limiter, ManualClock, RequestId, Result};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::model::Kind;
use tollgate_testkit::runtime::block_on;
use tollgate_testkit::trace::{Event, Mix, Settling, Trace};

use crate::support::{NOW, compare_and_swap, memory};

const SEEDS: u64 = 6;
const EVENTS: u64 = 1_500;

/// How a decision is asked for.
#[derive(Clone, Copy, Debug)]
enum Call {
    Check,
    CheckWithId,
    Batch,
    BatchWithId,
}

/// Every way over a store of its own, all on one clock.
struct Candidates {
    clock: ManualClock,
    sync: Limiter<Memory>,
    sync_with_id: Limiter<Memory>,
    /// Handles to the same two stores, for what has no synchronous form.
    pair: [Limiter<BoxStore>; 2],
    others: Vec<(&'static str, Call, Limiter<BoxStore>)>,
}

impl Candidates {
    fn new() -> Self {
        let clock = ManualClock::at(NOW);
        let of = |store: BoxStore| Limiter::with_clock(store, clock.clone()).build();
        let (first, second) = (memory(), memory());
        let others = vec![
            ("memory", Call::Check, of(BoxStore::new(memory()))),
            ("memory", Call::CheckWithId, of(BoxStore::new(memory()))),
            ("memory", Call::Batch, of(BoxStore::new(memory()))),
            ("memory", Call::BatchWithId, of(BoxStore::new(memory()))),
            ("reference", Call::Check, of(BoxStore::new(ReferenceStore::new()))),
            ("reference", Call::Batch, of(BoxStore::new(ReferenceStore::new()))),
            ("compare_and_swap", Call::Check, of(BoxStore::new(compare_and_swap()))),
            ("compare_and_swap", Call::Batch, of(BoxStore::new(compare_and_swap()))),
        ];
        Self {
            pair: [of(BoxStore::new(first.clone())), of(BoxStore::new(second.clone()))],
            sync: Limiter::with_clock(first, clock.clone()).build(),
            sync_with_id: Limiter::with_clock(second, clock.clone()).build(),
            others,
            clock,
        }
    }

    /// Every store answers the same.
    fn agree<T: PartialEq + std::fmt::Debug>(
        &self,
        context: &str,
        ask: &impl AsyncFn(&Limiter<BoxStore>) -> Result<T>,
    ) {
        let expected = block_on(ask(&self.pair[0])).unwrap();
        assert_eq!(block_on(ask(&self.pair[1])).unwrap(), expected, "{context}");
        for (store, _, limiter) in &self.others {
            assert_eq!(block_on(ask(limiter)).unwrap(), expected, "{store}, {context}");
        }
    }

    /// The decision that all agree on.
    fn check(&self, charge: Charge<'_>, context: &str) -> Decision {
        let expected = self.sync.sync().check(charge).unwrap();
        // An id of its own for every step, and shorter kept than it takes to be sent again.
        let id = RequestId::new(context.split(':').next().unwrap()).unwrap();
        let id = id.keep_for(Duration::from_micros(1));
        let with_id = self.sync_with_id.sync().check(charge.request_id(id)).unwrap();
        assert_eq!(with_id, expected, "synchronously with an id, {context}");
        for (store, call, limiter) in &self.others {
            let decided = block_on(ask(limiter, *call, charge, id));
            assert_eq!(decided.unwrap(), expected, "{call:?} on {store}, {context}");
        }
        expected
    }
}

async fn ask(
    limiter: &Limiter<BoxStore>,
    call: Call,
    charge: Charge<'_>,
    id: RequestId<'_>,
) -> Result<Decision> {
    match call {
        Call::Check => limiter.check(charge).await,
        Call::CheckWithId => limiter.check(charge.request_id(id)).await,
        Call::Batch => limiter.check_batch([charge]).await.remove(0),
        Call::BatchWithId => limiter.check_batch([charge.request_id(id)]).await.remove(0),
    }
}

/// Replays a trace on all candidates; how many checks were allowed and denied.
fn agrees(kind: Kind, seed: u64) -> (u64, u64) {
    let all = Candidates::new();
    let mut trace = Trace::new(kind, seed, Mix::STORE);
    let mut current: Option<Limit> = None;
    let mut subject = String::new();
    let (mut allowed, mut denied) = (0, 0);
    for step in 0..EVENTS {
        let event = trace.next_event();
        let context = format!("step {step} of seed {seed}: {event:?}");
        if let Event::Fresh(quota) | Event::Change(quota) = event {
            if matches!(event, Event::Fresh(_)) {
                subject = format!("key of step {step}");
            }
            // A state that some stores cannot hold would part them: leave it out.
            let rule = quota.rule().unwrap();
            let fits = rule.name() != "sliding_log" || rule.ceiling() <= 1_000;
            current = fits.then(|| Limit::with_rule("p", rule).unwrap());
        }
        let Some(limit) = &current else { continue };
        let asked = |cost| limit.charge(&subject).cost(cost);
        match event {
            Event::Fresh(_) | Event::Change(_) => {}
            Event::Check(now, cost) => {
                all.clock.set(now.reading());
                let decision = all.check(asked(cost), &context);
                trace.observe(now, cost, &decision);
                *(if decision.is_allowed() { &mut allowed } else { &mut denied }) += 1;
            }
            Event::Peek(now, cost) => {
                all.clock.set(now.reading());
                all.agree(&context, &async |limiter: &Limiter<BoxStore>| {
                    limiter.peek(asked(cost)).await
                });
            }
            Event::Forecast(now) => {
                all.clock.set(now.reading());
                all.agree(&context, &async |limiter: &Limiter<BoxStore>| {
                    limiter.forecast(limit.charge(&subject)).await
                });
            }
            Event::Settle(now, Settling { cost, receipt, to, max_debt }) => {
                all.clock.set(now.reading());
                let limit = limit.clone().max_debt(max_debt);
                all.agree(&context, &async |limiter: &Limiter<BoxStore>| {
                    limiter.settle(asked(cost).under(&limit).settle(receipt, to)).await
                });
            }
        }
    }
    (allowed, denied)
}

fn every_way_agrees(kind: Kind) {
    for seed in 0..SEEDS {
        println!("{} with seed {seed}", kind.name());
        let (allowed, denied) = agrees(kind, seed);
        assert!(allowed > 50 && denied > 50, "{allowed} allowed, {denied} denied: too one-sided");
    }
}

#[test]
fn every_way_to_ask_agrees_for_every_algorithm() {
    thread::scope(|scope| {
        for kind in Kind::ALL {
            scope.spawn(move || every_way_agrees(kind));
        }
    });
}
