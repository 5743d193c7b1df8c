//! Replays the golden vectors against a store.
#![expect(clippy::expect_used, reason = "a store that breaks a vector panics: that is the purpose")]

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Code, Decision, Limit, Now, Result, Settlement};

use super::{Group, Op, Vector, golden_vectors};
use crate::conformance::Suite;
use crate::derive::decisions_of;
use crate::model::Model;

/// Sends every request of the golden vectors to the store and compares every field of the
/// decisions; returns the number of requests.
///
/// A store may decide at a later time than the given one (the time up to which it has dropped
/// states); from such a decision on, the rest of its group is compared with the model at that time.
pub async fn replay_vectors<S: Store>(suite: &Suite<'_, S>) -> u64 {
    let mut replayed = 0;
    for file in golden_vectors() {
        for (number, group) in file.groups.iter().enumerate() {
            let policy = format!("vectors-{}-{number}", file.algorithm.name());
            replayed += replay_group(suite, group, &policy).await;
        }
    }
    replayed
}

async fn replay_group<S: Store>(suite: &Suite<'_, S>, group: &Group, policy: &str) -> u64 {
    let mut limit = suite.limit(policy, &group.quota);
    let mut model = Model::new(group.quota);
    let mut late = false;
    let mut replayed = 0;
    for (number, vector) in group.decisions.iter().enumerate() {
        if let Some(quota) = &vector.change {
            limit = suite.limit(policy, quota);
            model.change(*quota);
        }
        let charge = limit.charge("key").cost(vector.cost);
        let charge = vector.max.map_or(charge, |max| charge.up_to(max));
        let at = CallContext::at(vector.now_us);
        let bounded = vector.settled.map(|settled| limit.clone().max_debt(settled.max_debt));
        let charge = match (&vector.settled, &bounded) {
            (Some(settled), Some(limit)) => {
                charge.under(limit).settle(settled.receipt(), settled.to)
            }
            _ => charge,
        };
        let answer = match vector.op {
            Op::Check | Op::Settle => admit(suite, &Admission::from(charge), at).await,
            Op::Peek => suite.peek(&charge, at).await.map(|peeked| (peeked, Settlement::NOTHING)),
        };
        let ((decision, now), settlement) = match answer {
            Err(error) if error.code() == Code::Unsupported && is_long_log(&limit) => break,
            answer => answer.expect("a golden vector is decided"),
        };
        late |= now != Now::at(vector.now_us);
        let by_model = by_model(&mut model, vector, now);
        let (expected, of_vector) = (&vector.decision, vector.settled);
        let of_vector = of_vector.map_or(Settlement::NOTHING, |settled| settled.settlement);
        let expected = if late { (&by_model.0, by_model.1) } else { (expected, of_vector) };
        let decided = (&decision, settlement);
        assert_eq!(decided, expected, "decision {number} of {:?}: {vector:?}", group.name);
        replayed += 1;
    }
    replayed
}

fn by_model(model: &mut Model, vector: &Vector, now: Now) -> (Decision, Settlement) {
    let mut settlement = Settlement::NOTHING;
    let decision = match (vector.op, vector.max, vector.settled) {
        (Op::Check, Some(max), _) => model.check_up_to(now, vector.cost, max),
        (Op::Check, None, _) => model.check(now, vector.cost),
        (Op::Settle, _, Some(settled)) => {
            let final_cost = (settled.receipt(), settled.to);
            settlement = model.settle(now, vector.cost, final_cost, settled.max_debt);
            model.standing(now)
        }
        (Op::Peek | Op::Settle, ..) => model.peek(now, vector.cost),
    };
    (decision, settlement)
}

async fn admit<S: Store>(
    suite: &Suite<'_, S>,
    admission: &Admission<'_>,
    at: CallContext<'_>,
) -> Result<((Decision, Now), Settlement)> {
    let outcome = suite.store().admit(admission, at).await?;
    let plan = decisions_of(admission, &outcome)?;
    let decision = plan.decisions.into_iter().next().expect("one decision per charge");
    let settlement = plan.settled.first().copied().unwrap_or_default();
    Ok(((decision, outcome.now), settlement))
}

/// A log of many entries may be too large for a store that swaps whole states.
fn is_long_log(limit: &Limit) -> bool {
    limit.rule().name() == "sliding_log" && limit.rule().ceiling() > 1_000
}
