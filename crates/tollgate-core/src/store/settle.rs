//! Settling one charge on the state of its key: units are given back, or charged into debt.

use crate::algorithm::{Overdrawn, Refund, Write};
use crate::charge::{Charge, Receipt};
use crate::cost::Cost;
use crate::settled::Settlement;
use crate::time::Now;

/// What settling does to a key.
pub(super) struct Effect {
    pub(super) settlement: Settlement,
    /// Units that count under the other quotas of the key too. What is given back stays there: it
    /// may have been more than they count.
    pub(super) charged: Option<Cost>,
    /// The next state; absent when nothing changes.
    pub(super) write: Option<Write>,
}

/// Sets the final cost of a charge that took its cost.
pub(super) fn settle(
    charge: &Charge<'_>,
    (receipt, to): (Receipt, u64),
    words: &[u64],
    now: Now,
) -> Effect {
    let (rule, cost) = (charge.rule(), charge.cost.get());
    if let Ok(unused) = Cost::new(cost.saturating_sub(to)) {
        let Refund { units, write } = rule.refund(words, now, unused, receipt);
        return Effect { settlement: Settlement::giving_back(units), charged: None, write };
    }
    let beyond = to.saturating_sub(cost);
    let Ok(more) = Cost::new(beyond.min(Cost::MAX.get())) else {
        return Effect { settlement: Settlement::NOTHING, charged: None, write: None };
    };
    let Overdrawn { units, write } = rule.overdraw(words, now, more, charge.limit.debt_bound());
    let settlement = Settlement::charging(units, beyond - units);
    Effect { settlement, charged: Cost::new(units).ok(), write }
}
