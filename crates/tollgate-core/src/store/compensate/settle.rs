//! Settling charges over several parts, each for itself.

use super::super::{Evidence, TimeSource};
use super::{Leg, Parts};
use crate::charge::Admission;
use crate::error::{Code, Error, Result};
use crate::state::{QuotaId, State};
use crate::time::Now;

/// What the parts did, by the places of the charges.
struct Parted {
    instants: Vec<Now>,
    before: Vec<Option<State>>,
    quota_ids: Vec<QuotaId>,
    is_replayed: bool,
}

/// Settles one part after the other; that of the first charge first, so that a request id which was
/// used for something else is found before anything is settled.
pub(super) async fn settle_parts<P: Parts>(
    parts: &P,
    mut legs: Vec<Leg<'_>>,
    admission: &Admission<'_>,
    mut time: TimeSource,
) -> Result<Evidence> {
    if admission.charges().iter().any(|charge| charge.operation.takes()) {
        let message = "over keys that cannot be charged at once, settlements come without charges";
        return Err(Error::new(Code::Unsupported, message).not_sent());
    }
    legs.sort_by_key(|leg| leg.places.first() != Some(&0));
    let mut parted = Parted::of(admission);
    for (number, leg) in legs.iter().enumerate() {
        let own = admission.with_charges(&leg.charges);
        let settled = parts.settle(&own, time.into()).await;
        let evidence = settled.map_err(|error| if number == 0 { error } else { error.sent() })?;
        // All that is settled now is settled at one instant.
        if evidence.replayed.is_none() {
            time = TimeSource::Given(evidence.now.reading());
        }
        parted.note(leg, evidence)?;
    }
    Ok(parted.into_evidence())
}

impl Parted {
    fn of(admission: &Admission<'_>) -> Self {
        let charges = admission.charges();
        Self {
            instants: vec![Now::at(0); charges.len()],
            before: vec![None; charges.len()],
            quota_ids: charges.iter().map(|charge| charge.rule().quota_id()).collect(),
            is_replayed: false,
        }
    }

    fn note(&mut self, leg: &Leg<'_>, evidence: Evidence) -> Result<()> {
        let Evidence { now, before, replayed, .. } = evidence;
        if before.len() != leg.places.len() {
            let message = "a part was settled without evidence for each charge";
            return Err(Error::new(Code::CorruptState, message));
        }
        self.is_replayed |= replayed.is_some();
        let quota_ids = replayed.unwrap_or_default();
        for (index, (place, state)) in leg.places.iter().zip(before).enumerate() {
            if let Some(instant) = self.instants.get_mut(*place) {
                *instant = now;
            }
            if let Some(known) = self.before.get_mut(*place) {
                *known = state;
            }
            if let (Some(known), Some(first)) =
                (self.quota_ids.get_mut(*place), quota_ids.get(index))
            {
                *known = *first;
            }
        }
        Ok(())
    }

    fn into_evidence(self) -> Evidence {
        let Self { instants, before, quota_ids, is_replayed } = self;
        let now = instants.first().copied().unwrap_or(Now::at(0));
        let evidence = if is_replayed {
            Evidence::replayed(now, before, quota_ids)
        } else {
            Evidence::decided(now, before)
        };
        evidence.at_instants(instants)
    }
}
