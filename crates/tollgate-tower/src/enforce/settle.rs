//! Settles a charge when the response is known: refunds what was not used, charges what was used
//! beyond it.

use http::{Extensions, HeaderMap, StatusCode};
use tollgate::{Cost, Decision};

use super::{Enforcer, Granted, part};
use crate::decide::Decide;
use crate::event::Event;
use crate::limit_rule::{PendingCharge, ResponseParts};

impl<D: Decide> Enforcer<D> {
    /// The units that a request used under each limit; `None` when no limit settles.
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
        Some(used.collect())
    }

    /// Refunds what was not used, charges what was used beyond the cost.
    pub(crate) async fn settle(&self, granted: &Granted, used: Vec<Option<u64>>) {
        for (index, (charge, used)) in granted.charges.as_slice().iter().zip(used).enumerate() {
            let Some(used) = used else { continue };
            let charged = charge.cost.get();
            let beyond = used.saturating_sub(charged).min(Cost::MAX.get());
            if let Ok(unused) = Cost::new(charged.saturating_sub(used)) {
                self.refund(charge, unused, &granted.decision, index).await;
            } else if let Ok(beyond) = Cost::new(beyond) {
                self.charge_more(charge, beyond).await;
            }
        }
    }

    pub(super) async fn refund(
        &self,
        pending: &PendingCharge,
        units: Cost,
        decision: &Decision,
        index: usize,
    ) {
        let charge = self.charge(pending).map(|charge| charge.cost(units));
        let (Some(charge), Some(receipt)) = (charge, part(decision, index).receipt()) else {
            return;
        };
        if let Err(error) = self.decider.refund(charge, receipt).await {
            self.emit(&Event::Unsettled(&error));
        }
    }

    /// Charges units that were used already: all of them, or else as many as are left.
    async fn charge_more(&self, pending: &PendingCharge, units: Cost) {
        let Some(charge) = self.charge(pending) else { return };
        let left = match self.decider.decide(&[charge.cost(units)]).await {
            Ok(decision) if decision.is_allowed() => return,
            Ok(decision) => Cost::new(decision.remaining.min(units.get())),
            Err(error) => return self.emit(&Event::Unsettled(&error)),
        };
        if let Ok(left) = left
            && let Err(error) = self.decider.decide(&[charge.cost(left)]).await
        {
            self.emit(&Event::Unsettled(&error));
        }
    }
}
