//! A clause about deciding without waiting: the short way answers as the long one.

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Limit, Micros};

use super::suite::{START, Suite, cost};
use super::{SECOND, every_quota, skipped};
use crate::model::ModelQuota;
use crate::rng::Rng;

/// `decide_now` decides as `admit` does, decision by decision, also after a changed quota.
///
/// Two keys are treated alike, one each way. Time only moves on: where it steps back, a store may
/// decide later than it was told, and only `admit` says so.
pub async fn deciding_now_equals_admitting<S: Store>(suite: &Suite<'_, S>) {
    let mut rng = Rng::new(0x000D_EC1D);
    let mut time = START;
    let (small, large) = (every_quota(10, SECOND), every_quota(2_000_003, 7 * SECOND));
    let odd = every_quota(7, 1_500_000);
    let quotas: Vec<&ModelQuota> = small.iter().chain(&large).chain(&odd).collect();
    for (index, quota) in quotas.iter().enumerate() {
        let next = quotas.get(index + 1).unwrap_or(quota);
        let policy = format!("now-{index}");
        let limits = [suite.limit(&policy, quota), suite.limit(&policy, next)];
        for step in 0..200 {
            let limit = if step < 150 { &limits[0] } else { &limits[1] };
            time += match rng.below(3) {
                0 => 0,
                1 => rng.below(300_000),
                _ => rng.below(1_500),
            };
            if !same_both_ways(suite, limit, time, &mut rng).await {
                return skipped("deciding_now_equals_admitting", "the store always waits");
            }
        }
        time += 100 * SECOND;
    }
}

/// Charges one key each way and compares; false if the store does not decide now.
async fn same_both_ways<S: Store>(
    suite: &Suite<'_, S>,
    limit: &Limit,
    time: Micros,
    rng: &mut Rng,
) -> bool {
    let units = cost(rng.of_any_size(limit.rule().ceiling() + 1));
    let [long, short] = ["long", "short"].map(|way| limit.charge(way).cost(units));
    let Some(now) = suite.store().decide_now(&short, time) else {
        return false;
    };
    let now = now.expect("decides");
    let admitted = suite.charge(long, CallContext::at(time)).await.expect("decides");
    assert_eq!(now, admitted, "{units} units at {time} under {:?}", limit.rule());
    true
}
