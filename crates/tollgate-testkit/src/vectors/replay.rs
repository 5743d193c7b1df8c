//! Replays the golden vectors against a store.
#![expect(clippy::expect_used, reason = "a store that breaks a vector panics: that is the purpose")]

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Code, Limit, Now};

use super::{Group, Op, golden_vectors};
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
        let answer = match vector.op {
            Op::Check => check(suite, &Admission::of(&[charge]), at).await,
            Op::Peek => suite.peek(&charge, at).await,
        };
        let (decision, now) = match answer {
            Err(error) if error.code() == Code::Unsupported && is_long_log(&limit) => break,
            answer => answer.expect("a golden vector is decided"),
        };
        late |= now != Now::at(vector.now_us);
        let by_model = match (vector.op, vector.max) {
            (Op::Check, Some(max)) => model.check_up_to(now, vector.cost, max),
            (Op::Check, None) => model.check(now, vector.cost),
            (Op::Peek, _) => model.peek(now, vector.cost),
        };
        let expected = if late { &by_model } else { &vector.decision };
        assert_eq!(decision, *expected, "decision {number} of {:?}: {vector:?}", group.name);
        replayed += 1;
    }
    replayed
}

async fn check<S: Store>(
    suite: &Suite<'_, S>,
    admission: &Admission<'_>,
    at: CallContext<'_>,
) -> tollgate_core::Result<(tollgate_core::Decision, Now)> {
    let outcome = suite.store().admit(admission, at).await?;
    let plan = decisions_of(admission, &outcome)?;
    let decision = plan.decisions.into_iter().next().expect("one decision per charge");
    Ok((decision, outcome.now))
}

/// A log of many entries may be too large for a store that swaps whole states.
fn is_long_log(limit: &Limit) -> bool {
    limit.rule().name() == "sliding_log" && limit.rule().ceiling() > 1_000
}
