//! Clauses about agreement: with the model, with the golden vectors, and of batches with singles.

use tollgate_core::store::{CallContext, Plan, Store, admit_many};
use tollgate_core::{
    Admission, Charge, Code, Cost, Decision, Limit, Now, Operation, RequestId, Result,
};

use super::suite::{START, Suite, cost};
use super::{MONTH, every_quota, skipped};
use crate::derive::decisions_of;
use crate::model::{Kind, Model, ModelQuota};
use crate::trace::{Event, Mix, Settling, Trace};
use crate::vectors::replay_vectors;

/// Events per algorithm: enough to meet every case, few enough for a server on the network.
const EVENTS: u64 = 600;

/// Every algorithm agrees with the reference model, decision by decision, over seeded traces.
pub async fn agrees_with_the_model<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped("agrees_with_the_model", "time cannot be injected");
    }
    for (seed, kind) in (0x5EED..).zip(Kind::ALL) {
        let mut trace = Trace::new(kind, seed, Mix::STORE);
        let Event::Fresh(quota) = trace.next_event() else {
            continue;
        };
        let mut key = Follower::new(suite, (kind, seed), quota);
        for _ in 0..EVENTS {
            let event = trace.next_event();
            if let Some((now, cost, decision)) = key.follow(event).await {
                trace.observe(now, cost, &decision);
            }
        }
    }
}

/// A key of the store and its model.
struct Follower<'a, S> {
    suite: &'a Suite<'a, S>,
    /// What the trace was made from.
    made_from: (Kind, u64),
    number: u64,
    limit: Limit,
    model: Model,
    /// The store cannot keep states of this quota, and says so.
    refused: bool,
}

impl<'a, S: Store> Follower<'a, S> {
    fn new(suite: &'a Suite<'a, S>, made_from: (Kind, u64), quota: ModelQuota) -> Self {
        let limit = suite.limit(&format!("model-{}", made_from.0.name()), &quota);
        Self { suite, made_from, number: 0, limit, model: Model::new(quota), refused: false }
    }

    async fn follow(&mut self, event: Event) -> Option<(Now, Cost, Decision)> {
        match event {
            Event::Fresh(quota) => {
                let number = self.number + 1;
                *self = Self { number, ..Self::new(self.suite, self.made_from, quota) };
            }
            Event::Change(quota) => {
                let policy = self.limit.policy().clone();
                self.limit = self.suite.limit(policy.as_str(), &quota);
                self.model.change(quota);
            }
            _ if self.refused => {}
            Event::Check(now, cost) => return self.check(now, cost).await,
            Event::Peek(now, cost) => {
                let subject = self.subject();
                let charge = self.limit.charge(&subject).cost(cost);
                let peeked = self.suite.peek(&charge, CallContext::at(now.reading())).await;
                let (decision, now) = peeked.expect("peeks");
                let expected = self.model.peek(now, cost);
                assert_eq!(decision, expected, "{event:?} under {:?}", self.model.quota());
            }
            Event::Settle(now, settling) => {
                let Settling { cost, receipt, to, max_debt } = settling;
                let act = Operation::Settle { receipt, to };
                self.limit = self.limit.clone().max_debt(max_debt);
                let settled = self.admit(now, cost, act).await;
                let (now, plan) = settled.expect("a settlement is answered");
                let expected = self.model.settle(now, cost, (receipt, to), max_debt);
                let context = format!("{event:?}, {}", self.context());
                assert_eq!(plan.settled, [expected], "{context}");
                assert_eq!(plan.decisions, [self.model.standing(now)], "{context}");
            }
            // A forecast is made from what a peek loads.
            Event::Forecast(_) => {}
        }
        None
    }

    async fn check(&mut self, now: Now, cost: Cost) -> Option<(Now, Cost, Decision)> {
        let admitted = self.admit(now, cost, Operation::Take).await;
        // A log of many entries may be too large for a store that swaps whole states.
        let rule = self.limit.rule();
        if let Err(error) = &admitted
            && error.code() == Code::Unsupported
            && rule.name() == "sliding_log"
            && rule.ceiling() > 1_000
        {
            self.refused = true;
            return None;
        }
        let (decided_at, plan) = admitted.expect("a check is decided");
        let expected = self.model.check(decided_at, cost);
        let context = format!("{cost} at {now:?}, {}", self.context());
        assert_eq!(plan.decisions.as_slice(), core::slice::from_ref(&expected), "{context}");
        Some((now, cost, expected))
    }

    /// Admits one charge on the current key.
    async fn admit(&self, now: Now, cost: Cost, operation: Operation) -> Result<(Now, Plan)> {
        let subject = self.subject();
        let mut charge = self.limit.charge(&subject).cost(cost);
        charge.operation = operation;
        let admission = Admission::from(charge);
        let outcome = self.suite.store().admit(&admission, CallContext::at(now.reading())).await?;
        Ok((outcome.now, decisions_of(&admission, &outcome)?))
    }

    fn context(&self) -> String {
        let ((kind, seed), quota) = (self.made_from, self.model.quota());
        format!("under {quota:?}, seed {seed:#x} of {}", kind.name())
    }

    fn subject(&self) -> String {
        format!("key-{}", self.number)
    }
}

/// The store decides every golden vector as it is written.
pub async fn replays_golden_vectors<S: Store>(suite: &Suite<'_, S>) {
    if !suite.injects_time() {
        return skipped("replays_golden_vectors", "time cannot be injected");
    }
    let replayed = replay_vectors(suite).await;
    assert!(replayed >= 1_000, "only {replayed} decisions were replayed");
}

/// A batch answers in order, and as the same admissions one by one.
pub async fn admit_many_equals_one_by_one<S: Store>(suite: &Suite<'_, S>) {
    let idempotent = suite.capability().idempotent;
    for (index, quota) in every_quota(10, MONTH).iter().enumerate() {
        let limit = suite.limit(&format!("many-{index}"), quota);
        let batch_keys = ["a", "b", "c"].map(|name| format!("batch-{name}"));
        let single_keys = ["a", "b", "c"].map(|name| format!("single-{name}"));
        let costs = [1, 3, 2, 8, 5, 11, 1, 4, 2, 1, 7, 3, 1, 1, 10, 2, 6, 1, 9, 1];
        let on = |keys: &[String; 3]| -> Vec<(String, Cost)> {
            let cycle = keys.iter().cloned().cycle();
            cycle.zip(costs).map(|(key, units)| (key, cost(units))).collect()
        };
        let (batch_keys, single_keys) = (on(&batch_keys), on(&single_keys));
        let batch: Vec<[Charge<'_>; 1]> =
            batch_keys.iter().map(|(key, cost)| [limit.charge(key).cost(*cost)]).collect();
        let singles: Vec<[Charge<'_>; 1]> =
            single_keys.iter().map(|(key, cost)| [limit.charge(key).cost(*cost)]).collect();
        let id = idempotent.then(|| RequestId::new("batched").expect("an accepted id"));
        let batch: Vec<Admission<'_>> =
            (0..).zip(&batch).map(|(number, charges)| numbered(number, charges, id)).collect();
        let at =
            if suite.injects_time() { CallContext::at(START) } else { CallContext::store_clock() };
        let together = admit_many(suite.store(), &batch, at).await;
        assert_eq!(together.len(), batch.len(), "one answer per admission");
        for (number, (outcome, charges)) in together.into_iter().zip(&singles).enumerate() {
            let outcome = outcome.expect("decides");
            let admission = batch.get(number).expect("as many as answers");
            let together = decisions_of(admission, &outcome).expect("evidence fits");
            let alone = suite.admit(&numbered(number, charges, id), at).await.expect("decides");
            let numbers = |plan: &Plan| -> Vec<_> {
                plan.decisions.iter().map(|d| (d.verdict, d.limit, d.remaining)).collect()
            };
            let context = format!("admission {number} of a batch under {quota:?}");
            assert_eq!(numbers(&together), numbers(&alone), "{context}");
            if suite.injects_time() {
                assert_eq!(together.decisions, alone.decisions, "{context}");
            }
        }
    }
}

/// The admission of this number in the batch: two of them are one request sent twice, on one key.
fn numbered<'a>(
    number: usize,
    charges: &'a [Charge<'a>],
    id: Option<RequestId<'a>>,
) -> Admission<'a> {
    let mut admission = Admission::of(charges);
    admission.request_id = id.filter(|_| number == 0 || number == 6);
    admission
}
