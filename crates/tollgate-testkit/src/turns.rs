//! Several servers on one store while a quota changes: they do not change at the same moment, and a
//! load balancer sends one caller to all of them.
#![expect(
    clippy::expect_used,
    reason = "a check panics when the store breaks it: that is its purpose"
)]

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Code, Limit, Micros};

use crate::helpers::take;
use crate::model::{Kind, ModelQuota};
use crate::runtime::join_all;

/// Nothing comes back meanwhile.
const MONTH: Micros = 30 * 86_400_000_000;
const HIGH: u64 = 100;
const LOW: u64 = 10;
/// How often the limit goes down and up again.
const TIMES: usize = 10;
/// Charges at once after each server that has changed.
const AT_ONCE: usize = 9;

/// What happened on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Units admitted under all algorithms.
    pub admitted: u64,
    /// Charges that were denied.
    pub denied: u64,
    /// Charges that lost too many races or found a full queue: nothing was charged.
    pub refused: u64,
}

/// Changes a limit from 100 to 10 units and back, ten times, one server after the other, while all
/// of them are asked in turn for one key; for each algorithm, and for one rate with two bursts. In
/// the end exactly 100 units have passed.
///
/// # Panics
/// When more or fewer have, or the store fails.
pub async fn changed_quotas_never_mint<S: Store>(
    servers: &[&S],
    prefix: &str,
    now: impl Fn() -> CallContext<'static>,
) -> Turns {
    let of_kind =
        |kind| [HIGH, LOW].map(|limit| ModelQuota::of_kind(kind, limit, MONTH).swap_remove(0));
    let bursts = [HIGH, LOW].map(|burst| ModelQuota::Gcra { limit: 1, period_us: MONTH, burst });
    let mut pairs: Vec<[ModelQuota; 2]> = Kind::ALL.into_iter().map(of_kind).collect();
    pairs.extend([bursts, [of_kind(Kind::Gcra)[0], of_kind(Kind::SlidingLog)[1]]]);
    let mut all = Turns::default();
    for (number, pair) in pairs.into_iter().enumerate() {
        let limits = pair.map(|quota| {
            let rule = quota.rule().expect("the quotas are accepted");
            let limit = Limit::with_rule(&format!("turns-{number}"), rule);
            let limit = limit.and_then(|limit| limit.with_prefix(prefix));
            limit.expect("the names are accepted")
        });
        let mut turns = take_turns(servers, &limits, &now).await;
        // What contention has left.
        if let Some(&server) = servers.first() {
            let [high, _] = &limits;
            while take(server, high.charge("shared"), now()).await.expect("decides") {
                turns.admitted += 1;
            }
        }
        assert_eq!(turns.admitted, HIGH, "units under {pair:?} in turn: {turns:?}");
        all.admitted += turns.admitted;
        all.denied += turns.denied;
        all.refused += turns.refused;
    }
    all
}

async fn take_turns<S: Store>(
    servers: &[&S],
    [high, low]: &[Limit; 2],
    now: &impl Fn() -> CallContext<'static>,
) -> Turns {
    let mut turns = Turns::default();
    let mut in_force = vec![high; servers.len()];
    for next in [low, high].into_iter().cycle().take(2 * TIMES) {
        for changed in 0..servers.len() {
            if let Some(limit) = in_force.get_mut(changed) {
                *limit = next;
            }
            let by_all = servers.iter().zip(&in_force).cycle().take(AT_ONCE);
            let charges =
                by_all.map(|(&server, limit)| take(server, limit.charge("shared"), now()));
            for taken in join_all(charges).await {
                match taken {
                    Ok(true) => turns.admitted += 1,
                    Ok(false) => turns.denied += 1,
                    Err(error) => {
                        let code = error.code();
                        let is_harmless = matches!(code, Code::ConflictExhausted | Code::QueueFull);
                        assert!(is_harmless, "{error}");
                        turns.refused += 1;
                    }
                }
            }
        }
    }
    turns
}
