//! A changed quota keeps what was spent.
//!
//! Let m be the later of now and what the old state has seen. The units that the old quota still
//! counts at m, rounded up to a whole unit and at most the new ceiling, are owed under the new
//! quota as if they had been spent at m: no free refill, and no wait longer than the new quota
//! needs.

use tollgate_core::Now;

use super::{Family, ModelQuota};

/// What the key remembers under `new`, having been charged under another quota.
pub(super) fn carried(old: &Family, new: &ModelQuota, now: Now) -> Family {
    let mut fresh = Family::fresh(new);
    let old = old.mathematics();
    // A key that was never charged has nothing to carry, not even a time.
    if !old.is_untouched() {
        let at = now.effective().max(old.seen());
        fresh.mathematics_mut().owe(at, old.owed(at).min(new.ceiling()));
    }
    fresh
}
