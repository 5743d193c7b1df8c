//! Whether decisions can be made: the store answers, and does not refuse writes.
//!
//! A store may answer reads while it refuses every charge: Redis out of memory, a replica, a
//! standby, a full disk. Requests show that first, so readiness reads while charges are written,
//! and makes a charge of its own once one was not.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tollgate_core::algorithm::Gcra;
use tollgate_core::store::Store as _;
use tollgate_core::{Code, Decision, Error, Limit, Quota, Rule};

use super::{Engine, Result};
use crate::policy::Policies;

/// The key of readiness, among those of `CL.THROTTLE`.
const KEY: &str = "tollgate-readyz";
/// Nothing denies its charges: a denial writes nothing.
const PER_SECOND: u64 = 1_000_000;

/// Whether the last charge was written.
#[derive(Debug, Default)]
pub(super) struct Writes {
    last_failed: AtomicBool,
}

impl Writes {
    /// Learns from a request. A denial, a replay and contention write nothing and show nothing.
    pub(super) fn note(&self, decided: &tollgate_core::Result<Decision>) {
        let has_failed = match decided {
            Ok(decision) if decision.degraded.is_some() => true,
            Ok(decision) if decision.is_allowed() && !decision.replayed => false,
            Err(error) if is_refusal(error.code()) => true,
            _ => return,
        };
        // Written only when it changes: every request reads it.
        if self.last_failed.load(Relaxed) != has_failed {
            self.last_failed.store(has_failed, Relaxed);
        }
    }
}

/// Whether a store that answers so may refuse every charge.
fn is_refusal(code: Code) -> bool {
    code.is_outage() || matches!(code, Code::StoreFull | Code::ConfigInvalid)
}

impl Engine {
    /// Calls the store once or twice, and verifies the clock if the store decides by the clocks of
    /// several processes. Charges nothing while charges are written; else one unit on a key of its
    /// own.
    ///
    /// # Errors
    /// When the store cannot answer or refuses writes, or the clock is too far ahead of the wall
    /// clock.
    pub async fn probe(&self) -> Result<()> {
        self.verify_clock()?;
        let limit = probe_limit(&self.policies.load_full())?;
        self.limiter.forecast(limit.charge(KEY)).await?;
        if self.in_process() || !self.writes.last_failed.load(Relaxed) {
            return Ok(());
        }
        let charged = self.limiter.check_in_store(limit.charge(KEY)).await;
        self.writes.note(&charged);
        match charged {
            Err(error) if error.code() == Code::Timeout => Err(error.into()),
            Err(error) if is_refusal(error.code()) => {
                let message = format!("the store refuses writes: {}", error.message());
                Err(Error::new(Code::StoreUnavailable, message).into())
            }
            // Contention for the key of readiness concerns no other.
            _ => Ok(()),
        }
    }

    fn verify_clock(&self) -> Result<()> {
        let capability = self.limiter.store().capability();
        let health = self.limiter.clock().health();
        if capability.own_clock || capability.in_process || !health.is_out_of_bounds() {
            return Ok(());
        }
        let ahead_ms = health.ahead / 1_000;
        let message = format!("the clock is {ahead_ms} ms ahead of the wall clock of its host");
        Err(Error::new(Code::StoreUnavailable, message).into())
    }
}

fn probe_limit(policies: &Policies) -> tollgate_core::Result<Limit> {
    let rule = Rule::new(Gcra::new(Quota::per_second(PER_SECOND))?);
    Ok(policies.ad_hoc().clone().replace_rule(rule))
}
