//! Several charges, all or nothing, perhaps only once: one script.

use tollgate_core::algorithm::ScriptedStep;
use tollgate_core::store::record;
use tollgate_core::store::{CallContext, Evidence, Store, TimeSource, slots_of};
use tollgate_core::{Admission, Charge, Key, Result};

use super::Inner;
use super::batch_encode::write_instant;
use super::reply::{KeyReply, Numbers, full, unreadable};
use crate::error_reply::corrupt;
use crate::script::{Frame, write_cost, write_quota};
use crate::transport::{Args, Call, Reply, Transport};

/// The longest time a request id is kept: far beyond any use, and exact in a script.
const KEEP_MAX: u64 = 1 << 50;

/// Whether no two charges are on one key under different quotas.
pub(super) fn one_quota_per_key(charges: &[Charge<'_>]) -> bool {
    let (slots, keys) = slots_of(charges);
    let mut quota_ids = vec![None; keys.len()];
    charges.iter().zip(slots).all(|(charge, slot)| {
        let quota_id = charge.rule().quota_id();
        quota_ids.get_mut(slot).is_some_and(|known| *known.get_or_insert(quota_id) == quota_id)
    })
}

/// What a charge brings into the script.
pub(super) enum Part<'a> {
    Charge(&'a Charge<'a>),
    /// Charged elsewhere already: only its evidence belongs into the record.
    Known(String),
}

/// The result of a script.
pub(super) enum Answered {
    Decided(Evidence),
    /// The id was charged before.
    Replayed(Evidence),
    /// A state is of another quota, or cannot be read: nothing was done.
    NotScripted,
}

impl<T: Transport> Inner<T> {
    pub(super) async fn admit(
        &self,
        admission: &Admission<'_>,
        cx: CallContext<'_>,
    ) -> Result<Evidence> {
        let parts: Vec<Part<'_>> = admission.charges().iter().map(Part::Charge).collect();
        let call = self.admit_call(&parts, admission, cx.time());
        let reply = self.runner.run(&call, cx, || true).await;
        match read(reply, admission.charges(), admission)? {
            Answered::Decided(outcome) | Answered::Replayed(outcome) => Ok(outcome),
            Answered::NotScripted => self.swapping.admit(admission, cx).await,
        }
    }

    /// The script call of an admission, or of the part of it that lives in one slot.
    pub(super) fn admit_call(
        &self,
        parts: &[Part<'_>],
        admission: &Admission<'_>,
        at: TimeSource,
    ) -> Call {
        let charges: Vec<Charge<'_>> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Charge(charge) => Some(**charge),
                Part::Known(_) => None,
            })
            .collect();
        let (slots, keys) = slots_of(&charges);
        let mut names: Vec<String> = keys.iter().map(|key| self.runner.layout.name(key)).collect();
        let mut args = Args::default();
        write_instant(&mut args, at);
        let home = admission.charges().first().map(Charge::key);
        match (record::request_id_key(admission), home) {
            (Some(request), Some(key)) => {
                args.text(&request.id);
                args.text(&request.payload);
                args.unsigned(request.keep.min(KEEP_MAX));
                names.push(self.record_name(key, &request.id));
            }
            _ => {
                args.text("");
                args.text("");
                args.unsigned(0);
            }
        }
        let mut steps = Vec::new();
        let mut slots = slots.into_iter();
        for part in parts {
            match part {
                Part::Known(evidence) => {
                    args.integer(0);
                    args.text(evidence);
                }
                Part::Charge(charge) => {
                    let slot = slots.next().unwrap_or_default();
                    write_charge(&mut args, &mut steps, charge, slot);
                }
            }
        }
        Call::new(self.runner.scripts.of(Frame::Admit(steps)), names, args)
    }

    pub(super) fn record_name(&self, key: Key<'_>, id: &str) -> String {
        self.runner.layout.rename(record::name(key, id))
    }
}

fn write_charge(args: &mut Args, steps: &mut Vec<ScriptedStep>, charge: &Charge<'_>, slot: usize) {
    let Some(step) = charge.rule().scripted_step() else { return };
    let known = steps.iter().position(|other| *other == step);
    let place = known.unwrap_or_else(|| {
        steps.push(step);
        steps.len() - 1
    });
    args.unsigned(place as u64 + 1);
    args.unsigned(slot as u64 + 1);
    write_quota(args, charge.rule());
    write_cost(args, charge.rule(), charge.cost);
}

/// Reads the reply to [`Inner::admit_call`] for the charges that were in it.
pub(super) fn read(
    reply: Result<Reply>,
    charges: &[Charge<'_>],
    admission: &Admission<'_>,
) -> Result<Answered> {
    let mut numbers = Numbers::of(reply?.ok()?)?;
    match numbers.integer()? {
        0 => {}
        1 => return replay(numbers.reply()?, admission).map(Answered::Replayed),
        2 => return Ok(Answered::NotScripted),
        3 => return Err(full()),
        4 => return Err(corrupt()),
        _ => return Err(unreadable()),
    }
    let mut before = Vec::with_capacity(charges.len());
    for charge in charges {
        let KeyReply::State(state) = numbers.found(charge.rule().quota_id())? else {
            return Err(unreadable());
        };
        before.push(state);
    }
    Ok(Answered::Decided(Evidence::decided(numbers.now(), before)))
}

/// The evidence of the first time.
pub(super) fn replay(reply: Reply, admission: &Admission<'_>) -> Result<Evidence> {
    let Reply::Text(text) = reply else { return Err(unreadable()) };
    let text = String::from_utf8(text).map_err(|_| unreadable())?;
    record::replay(&text, admission)
}
