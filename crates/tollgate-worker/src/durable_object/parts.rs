//! Objects as the parts of a compensated admission, each of which charges its keys at once.

use tollgate_core::store::cas::Swap;
use tollgate_core::store::compensate::{Leg, Parts};
use tollgate_core::store::detach::{Detached, Spawner};
use tollgate_core::store::{CallContext, Evidence, Loaded, TimeSource};
use tollgate_core::{Admission, BoxFuture, Charge, Key, Result, State};
use worker::wasm_bindgen_futures::spawn_local;

use super::calls::Calls;
use super::store::no_outcome;
use super::swapping::{Swapping, sent_swaps};
use super::wire::{SentAdmission, unknown_algorithm};
use crate::races::{Races, racing};

/// The objects of a namespace.
#[derive(Debug)]
pub(super) struct ObjectParts(pub(super) Calls);

impl ObjectParts {
    /// The object that all keys are in, if there is one.
    pub(super) fn only_shard(&self, charges: &[Charge<'_>]) -> Option<u32> {
        let mut shards = charges.iter().map(|charge| self.part_of(&charge.key()));
        let first = shards.next()?;
        shards.all(|shard| shard == first).then_some(first)
    }

    /// Compare-and-swap from here, for algorithms that objects do not know. Made anew for each
    /// call: requests of a Worker must not wait for each other's futures.
    pub(super) fn swapping(&self) -> Races {
        racing(Swapping(self.0.clone()))
    }

    async fn admit_in(
        &self,
        shard: u32,
        sent: SentAdmission,
        cx: CallContext<'_>,
    ) -> Result<Evidence> {
        cx.sent();
        let outcomes = self.0.admit(shard, vec![sent], cx.time()).await?;
        outcomes.into_iter().next().unwrap_or_else(|| Err(no_outcome()))
    }
}

impl Parts for ObjectParts {
    type Part = u32;

    fn part_of(&self, key: &Key<'_>) -> u32 {
        self.0.shard(&key.to_text())
    }

    async fn charge(&self, leg: &Leg<'_>, time: TimeSource, work: &Detached) -> Result<Evidence> {
        let shard = self.only_shard(&leg.charges).ok_or_else(no_outcome)?;
        let (sent, own) = match &leg.record {
            // The object records the evidence of all charges, and makes only its own.
            Some(record) => {
                let mut sent =
                    SentAdmission::of(&record.admission).ok_or_else(unknown_algorithm)?;
                for (charge, before) in sent.charges.iter_mut().zip(&record.before) {
                    let text = |before: &Option<State>| {
                        before.as_ref().map(State::to_text).unwrap_or_default()
                    };
                    charge.elsewhere = before.as_ref().map(text);
                }
                (sent, record.before.iter().map(Option::is_none).collect())
            }
            None => {
                let sent = SentAdmission::of(&Admission::of(&leg.charges));
                (sent.ok_or_else(unknown_algorithm)?, vec![true; leg.charges.len()])
            }
        };
        let mut evidence = self.admit_in(shard, sent, work.context(time)).await?;
        if evidence.replayed.is_none() {
            let mut own = own.into_iter();
            evidence.before.retain(|_| own.next() == Some(true));
        }
        Ok(evidence)
    }

    async fn settle(&self, settled: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        let shard = self.only_shard(settled.charges()).ok_or_else(no_outcome)?;
        let sent = SentAdmission::of(settled).ok_or_else(unknown_algorithm)?;
        self.admit_in(shard, sent, cx).await
    }

    async fn put_back(&self, swaps: &[Swap<'_>]) -> Result<bool> {
        let Some(first) = swaps.first() else { return Ok(true) };
        self.0.swap(self.0.shard(first.key), sent_swaps(swaps)).await
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.0.load(charges, cx).await
    }

    async fn record(&self, name: &str) -> Result<Option<String>> {
        let (_, values) = self.0.read(&[name]).await?;
        Ok(values.into_iter().next().flatten())
    }

    /// The rest runs for as long as the request of the caller does.
    fn spawner(&self) -> Option<Spawner> {
        Some(|work: BoxFuture<'static, ()>| spawn_local(work))
    }
}
