//! What is done about a charge once it is known what was used: given back, or charged on top.

use http::{Extensions, HeaderMap, StatusCode};
use tollgate::{Cost, Decision, Verdict};

use super::{Gate, Granted, part};
use crate::decide::Decide;
use crate::event::Event;
use crate::keyed::{Asked, Outcome};

/// What is seen of a response: status, headers, extensions.
pub(crate) type Seen<'a> = (StatusCode, &'a HeaderMap, &'a Extensions);

impl<D: Decide> Gate<D> {
    /// What each limit says was used, once the response is known; `None` when none settles.
    pub(crate) fn used(&self, granted: &Granted, seen: Seen<'_>) -> Option<Vec<Option<u64>>> {
        if !self.settles(&granted.asked) {
            return None;
        }
        let (status, headers, extensions) = seen;
        let used = granted.asked.as_slice().iter().map(|asked| {
            let outcome = Outcome { cost: asked.cost, status, headers, extensions };
            self.keyed.get(asked.index).and_then(|keyed| keyed.used(&outcome))
        });
        Some(used.collect())
    }

    /// Gives back what was not used, charges what was used beyond it.
    pub(crate) async fn settle(&self, granted: &Granted, used: Vec<Option<u64>>) {
        for (index, (asked, used)) in granted.asked.as_slice().iter().zip(used).enumerate() {
            let Some(used) = used else { continue };
            let charged = asked.cost.get();
            let beyond = used.saturating_sub(charged).min(Cost::MAX.get());
            if let Ok(unused) = Cost::new(charged.saturating_sub(used)) {
                self.give_back(asked, unused, &granted.decision, index).await;
            } else if let Ok(beyond) = Cost::new(beyond) {
                self.take(asked, beyond).await;
            }
        }
    }

    pub(super) async fn give_back(
        &self,
        asked: &Asked,
        units: Cost,
        decision: &Decision,
        index: usize,
    ) {
        let charge = self.charge(asked).map(|charge| charge.cost(units));
        let (Some(charge), Some(receipt)) = (charge, part(decision, index).receipt()) else {
            return;
        };
        if let Err(error) = self.decider.refund(charge, receipt).await {
            self.tell(&Event::Unsettled(&error));
        }
    }

    /// Charges units that were used already: all of them, or else those that are left.
    async fn take(&self, asked: &Asked, units: Cost) {
        let Some(charge) = self.charge(asked) else { return };
        let left = match self.decider.decide(&[charge.cost(units)]).await {
            Ok(decision) if decision.verdict == Verdict::Allowed => return,
            Ok(decision) => Cost::new(decision.remaining.min(units.get())),
            Err(error) => return self.tell(&Event::Unsettled(&error)),
        };
        if let Ok(left) = left
            && let Err(error) = self.decider.decide(&[charge.cost(left)]).await
        {
            self.tell(&Event::Unsettled(&error));
        }
    }
}
