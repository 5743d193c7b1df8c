//! Charges over several slots of a cluster, which no script can make at once.
//!
//! The slots are charged in the order of their numbers and undone exactly on a later denial
//! ([`compensate`]). Where that matters, keep the keys in one slot
//! ([`KeyLayout`](crate::KeyLayout)).

use tollgate_core::store::cas::{Swap, Version, Versioned as _};
use tollgate_core::store::compensate::{self, Leg, Parts, Recorded};
use tollgate_core::store::detach::{Detached, Spawner};
use tollgate_core::store::{CallContext, Evidence, Loaded, Store as _, TimeSource, record};
use tollgate_core::{Admission, Charge, Code, Error, Key, Result, State};

use super::admit::{Answered, Part, one_quota_per_key, read};
use super::{Inner, Redis};
use crate::transport::Transport;

impl<T: Transport> Redis<T> {
    pub(super) async fn admit_over_slots(
        &self,
        admission: &Admission<'_>,
        cx: CallContext<'_>,
    ) -> Result<Evidence> {
        self.0.refuse_what_no_script_records(admission)?;
        compensate::admit(&self.0, admission, cx).await
    }
}

impl<T: Transport> Parts for Inner<T> {
    type Part = Option<u16>;

    fn part_of(&self, key: &Key<'_>) -> Option<u16> {
        self.runner.slot(&self.runner.layout.name(key))
    }

    async fn charge(&self, leg: &Leg<'_>, at: TimeSource, work: &Detached) -> Result<Evidence> {
        let charges = &*leg.charges;
        if !one_quota_per_key(charges) || has_range(charges) {
            return self.swapping.admit(&Admission::of(charges), at.into()).await;
        }
        let bare = Admission::of(charges);
        let (scope, parts) = match &leg.record {
            Some(record) => (&record.admission, with_evidence(record)),
            None => (&bare, charges.iter().map(Part::Charge).collect()),
        };
        let call = self.admit_call(&parts, scope, at);
        let reply = self.runner.run(&call, work.context(at), || !work.is_cancelled()).await;
        match read(reply, charges, scope)? {
            Answered::Decided(evidence) | Answered::Replayed(evidence) => Ok(evidence),
            Answered::NotScripted => match &leg.record {
                None => self.swapping.admit(&bare, at.into()).await,
                Some(record) => self.swap_with_record(charges, record, at).await,
            },
        }
    }

    async fn settle(&self, settled: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.swapping.admit(settled, cx).await
    }

    /// The stored form of a list is unknown: its units are given back instead.
    fn version_of(&self, state: &State) -> Option<Version> {
        let held = crate::text::to_hold(&state.to_text());
        (!held.starts_with('l')).then(|| Version::Text(held.into()))
    }

    async fn put_back(&self, swaps: &[Swap<'_>]) -> Result<bool> {
        self.swapping.backend().swap(swaps).await
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        Self::load(self, charges, cx).await
    }

    async fn record(&self, name: &str) -> Result<Option<String>> {
        let read = self.swapping.backend().read(&[name]).await?;
        Ok(read.entries.into_iter().next().flatten().map(|entry| entry.text))
    }

    fn spawner(&self) -> Option<Spawner> {
        self.runner.transport.spawner()
    }
}

impl<T: Transport> Inner<T> {
    /// A record is written by a script, with all charges of its slot; no script charges one key
    /// under two quotas, or a range.
    fn refuse_what_no_script_records(&self, admission: &Admission<'_>) -> Result<()> {
        let charges = admission.charges();
        let home = charges.first().map(|charge| self.part_of(&charge.key()));
        let is_at_home = |charge: &&Charge<'_>| Some(self.part_of(&charge.key())) == home;
        let recorded: Vec<Charge<'_>> = charges.iter().filter(is_at_home).copied().collect();
        let is_scripted = one_quota_per_key(&recorded) && !has_range(charges);
        if admission.request_id.is_none() || admission.is_settlement() || is_scripted {
            return Ok(());
        }
        let message = "over several hash slots, a request id goes together neither with a range \
                       nor with two quotas of its first key";
        Err(Error::new(Code::Unsupported, message).not_sent())
    }
}

/// All charges in order: those of this leg, and the evidence of those that are charged already.
fn with_evidence<'a>(record: &'a Recorded<'a>) -> Vec<Part<'a>> {
    let parts = record.admission.charges().iter().zip(&record.before);
    let part = |(charge, before): (&'a Charge<'a>, &Option<Option<State>>)| match before {
        None => Part::Charge(charge),
        Some(before) => {
            Part::Known(record::evidence_text(charge.rule().quota_id(), before.as_ref()))
        }
    };
    parts.map(part).collect()
}

fn has_range(charges: &[Charge<'_>]) -> bool {
    charges.iter().any(|charge| charge.range().is_some())
}
