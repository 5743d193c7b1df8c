//! Undoing charges of an admission that a later part has denied.

use super::super::cas::{SLACK, Swap};
use super::super::{Evidence, TimeSource, plan, slots_of};
use super::{Charged, Detached, Parts, of_slots};
use crate::charge::{Admission, Charge, Receipt};
use crate::cost::Cost;
use crate::error::{Code, Result};
use crate::key::Key;
use crate::state::State;

/// How often giving units back is begun anew after it has lost as many races as [`Retries`] allow:
/// some minutes of them. The caller may be refused meanwhile, but must not stay charged.
///
/// [`Retries`]: crate::store::Retries
const GIVE_BACK_ROUNDS: usize = 300;

/// The result of an attempt to leave a leg as if it had not been charged.
enum PutBack {
    Done,
    /// Another caller has charged it meanwhile.
    LostRace,
    /// Its stored form is unknown.
    Impossible,
}

/// Puts every leg back. A part that does not answer keeps its units, and only its own.
///
/// # Errors
/// Why the first of the parts that keep their units could not be put back.
pub(super) async fn undo<P: Parts>(
    parts: &P,
    done: &[Charged<'_>],
    at: (TimeSource, &Detached),
) -> Result<()> {
    let mut undone = Ok(());
    for leg in done {
        let own = undo_leg(parts, leg, at).await;
        undone = undone.and(own);
    }
    if undone.is_ok() {
        at.1.set_charged(false);
    }
    undone
}

/// As it was if no other caller charged it meanwhile, else by giving back what this admission took.
async fn undo_leg<P: Parts>(
    parts: &P,
    leg: &Charged<'_>,
    (time, work): (TimeSource, &Detached),
) -> Result<()> {
    match put_back(parts, leg).await? {
        PutBack::Done => return Ok(()),
        // The charge is undone whether the caller waits or not.
        PutBack::LostRace => work.context(time).lost_race(),
        PutBack::Impossible => {}
    }
    let refunds: Vec<Charge<'_>> =
        leg.charges.iter().map(|charge| charge.refund(Receipt::Newest)).collect();
    give_back(parts, &Admission::of(&refunds), time).await
}

/// Gives back what ranges took beyond what the whole admission is granted. What cannot be given
/// back stays spent: the decision stands.
pub(super) async fn give_back_excess<P: Parts>(
    parts: &P,
    admission: &Admission<'_>,
    evidence: &Evidence,
    done: &[Charged<'_>],
) {
    let (slots, _) = slots_of(admission.charges());
    let states = of_slots(&slots, &evidence.before);
    let Ok(granted) = plan(admission.charges(), &slots, &states, evidence.now) else { return };
    for leg in done {
        let refunds: Vec<Charge<'_>> = leg
            .charges
            .iter()
            .zip(&leg.places)
            .filter_map(|(charge, place)| {
                let granted = granted.decisions.get(*place)?.granted()?;
                let excess = Cost::new(charge.cost.get().checked_sub(granted.get())?).ok()?;
                Some(charge.cost(excess).refund(Receipt::Newest))
            })
            .collect();
        if !refunds.is_empty() {
            let time = TimeSource::Given(evidence.now.reading());
            drop(give_back(parts, &Admission::of(&refunds), time).await);
        }
    }
}

/// Gives units back. An attempt that lost too many races has changed nothing, and is begun anew.
async fn give_back<P: Parts>(parts: &P, refunds: &Admission<'_>, time: TimeSource) -> Result<()> {
    let mut rounds = 1..GIVE_BACK_ROUNDS;
    loop {
        match parts.settle(refunds, time.into()).await {
            Err(error) if error.code() == Code::ConflictExhausted && rounds.next().is_some() => {}
            other => return other.map(drop),
        }
    }
}

async fn put_back<P: Parts>(parts: &P, leg: &Charged<'_>) -> Result<PutBack> {
    let (slots, keys) = slots_of(&leg.charges);
    let before = of_slots(&slots, &leg.before);
    let names: Vec<String> = keys.iter().map(Key::to_text).collect();
    let mut texts = Vec::with_capacity(names.len());
    for write in &leg.plan.writes {
        let Some(after) = parts.version_of(&write.state) else { return Ok(PutBack::Impossible) };
        let old = before.get(write.slot).and_then(Option::as_ref);
        let old = old.map_or_else(|| "[]".to_owned(), State::to_text);
        texts.push((write.slot, after, old, write.fresh_at.saturating_add(SLACK)));
    }
    let swaps: Vec<Swap<'_>> = texts
        .iter()
        .filter_map(|(slot, after, old, until)| {
            let key = names.get(*slot)?;
            Some(Swap { key, expect: Some(after), value: old, keep_until: *until })
        })
        .collect();
    let is_done = parts.put_back(&swaps).await?;
    Ok(if is_done { PutBack::Done } else { PutBack::LostRace })
}
