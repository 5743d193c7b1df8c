//! Settles a charge when the response is known: what was not used is given back, what was used
//! beyond the cost is charged, into debt if it must.

use http::{Extensions, HeaderMap, StatusCode};
use tollgate::Decision;

use super::{Enforcer, Granted, part};
use crate::decide::Decide;
use crate::event::Event;
use crate::limit_rule::{PendingCharge, ResponseParts};

impl<D: Decide> Enforcer<D> {
    /// The units that a request used under each limit, by its response; `None` when no limit
    /// settles by that.
    pub(crate) fn used(
        &self,
        granted: &Granted,
        (status, headers, extensions): (StatusCode, &HeaderMap, &Extensions),
    ) -> Option<Vec<Option<u64>>> {
        if !self.settles(&granted.charges) {
            return None;
        }
        let used = granted.charges.as_slice().iter().map(|charge| {
            let response = ResponseParts { cost: charge.cost, status, headers, extensions };
            self.rules.get(charge.index).and_then(|rule| rule.used(&response))
        });
        let used: Vec<Option<u64>> = used.collect();
        used.iter().any(Option::is_some).then_some(used)
    }

    /// Sets the final cost of each charge to what the request used.
    pub(crate) async fn settle(&self, granted: &Granted, used: Vec<Option<u64>>) {
        for (index, (charge, used)) in granted.charges.as_slice().iter().zip(used).enumerate() {
            if let Some(used) = used.filter(|used| *used != charge.cost.get()) {
                self.settle_one(charge, &granted.decision, (index, used)).await;
            }
        }
    }

    /// Settles one charge of a decision. A charge that the store has not made has no receipt:
    /// nothing is settled.
    pub(super) async fn settle_one(
        &self,
        pending: &PendingCharge,
        decision: &Decision,
        (index, used): (usize, u64),
    ) {
        let (Some(charge), Some(receipt)) = (self.charge(pending), part(decision, index).receipt())
        else {
            return;
        };
        if let Err(error) = self.decider.settle(charge, receipt, used).await {
            self.emit(&Event::Unsettled(&error));
        }
    }
}
