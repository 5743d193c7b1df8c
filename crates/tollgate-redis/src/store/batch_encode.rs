//! Single charges become calls: many keys, and many charges of one key, share a script.
//!
//! The charges of a key are gathered in order, equal ones as a run. Keys that are charged alike
//! under one quota form a block, so that their arguments travel once. A call carries blocks of one
//! step.

use std::collections::HashMap;

use smallvec::{SmallVec, smallvec};
use tollgate_core::algorithm::ScriptedStep;
use tollgate_core::combine;
use tollgate_core::store::{Evidence, TimeSource};
use tollgate_core::{Charge, Cost, Error, Micros, Now, Result, Rule};

use super::batch_decode::Decoder;
use super::reply::{KeyReply, Numbers, full};
use crate::script::{Frame, Scripts, list_of_one, write_cost, write_quota};
use crate::slot::slot_of;
use crate::transport::{Args, Call, Reply};

/// Keys in one call: the server answers nothing else while it runs, about a third of a millisecond.
const KEYS_MAX: usize = 64;

/// One charge.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) rule: Rule,
    pub(super) step: ScriptedStep,
    pub(super) cost: Cost,
    pub(super) at: TimeSource,
    /// When its caller stops waiting, by the clock of the store.
    pub(super) until: Option<Micros>,
}

impl Item {
    pub(super) fn new(
        charge: &Charge<'_>,
        (name, step): (String, ScriptedStep),
        at: TimeSource,
    ) -> Self {
        Self { name, rule: charge.rule().clone(), step, cost: charge.cost, at, until: None }
    }

    /// The same, of a caller that stops waiting then.
    pub(super) const fn until(mut self, until: Option<Micros>) -> Self {
        self.until = until;
        self
    }
}

/// The result of an item.
#[derive(Debug)]
pub(super) enum ItemResult {
    Decided(Evidence),
    /// The state is of another quota, or cannot be read: nothing was done.
    NotScripted,
    Failed(Error),
}

impl combine::Reply for ItemResult {
    fn failed(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The charges of one key: which items they are, and how many of each cost in a row. Most keys are
/// charged once, for which nothing is allocated.
#[derive(Debug)]
pub(super) struct KeyCharges {
    pub(super) items: SmallVec<[usize; 1]>,
    runs: SmallVec<[(Cost, i64); 1]>,
}

/// Keys of one call, in blocks that are charged alike.
struct Draft {
    blocks: Vec<Vec<KeyCharges>>,
    keys: usize,
}

/// What a call has in common: the slot, where slots matter, the step and the instant.
type Common = (Option<u16>, ScriptedStep, Option<u64>);

/// Turns items into calls: those of one key stay in order. In a cluster a call has keys of one
/// slot.
pub(super) fn calls_of(
    items: &[&Item],
    scripts: &Scripts,
    has_slots: bool,
) -> Vec<(Call, Decoder)> {
    let mut calls = Vec::with_capacity(1);
    let mut rest = 0;
    while rest < items.len() {
        let (keys, end) = gather(items, rest);
        let drafts = drafts_of(items, keys, has_slots).into_iter();
        calls.extend(drafts.filter_map(|draft| draft.finish(items, scripts)));
        rest = end;
    }
    calls
}

/// The call of a key that is alone in it.
pub(super) fn call_of_key(
    key: KeyCharges,
    items: &[&Item],
    scripts: &Scripts,
) -> Option<(Call, Decoder)> {
    Draft { blocks: vec![vec![key]], keys: 1 }.finish(items, scripts)
}

/// The call of a charge that is alone in it.
pub(super) fn call_of_one(
    charge: &Charge<'_>,
    (name, step): (String, ScriptedStep),
    at: TimeSource,
    scripts: &Scripts,
) -> Call {
    let args = list_of_one(charge.rule(), charge.cost, instant_of(at));
    Call::new(scripts.of(Frame::ChargeOne(step)), vec![name], args)
}

/// The result of the charge of [`call_of_one`].
pub(super) fn answer_of_one(charge: &Charge<'_>, reply: Result<Reply>) -> ItemResult {
    let read = |reply: Reply| {
        let mut numbers = Numbers::of(reply.ok()?)?;
        Ok(match numbers.found(charge.rule().quota_id())? {
            KeyReply::State(state) => {
                ItemResult::Decided(Evidence::decided(numbers.now(), vec![state]))
            }
            KeyReply::Another => ItemResult::NotScripted,
            KeyReply::Full => ItemResult::Failed(full()),
        })
    };
    reply.and_then(read).unwrap_or_else(ItemResult::Failed)
}

/// The keys of the items from `from` on, up to an item that comes under another quota or at another
/// instant than those before it on its key: that one is charged by a later call.
fn gather(items: &[&Item], from: usize) -> (Vec<KeyCharges>, usize) {
    let mut by_name: HashMap<&str, usize> = HashMap::with_capacity(items.len() - from);
    let mut keys: Vec<KeyCharges> = Vec::with_capacity(items.len() - from);
    for (index, item) in items.iter().enumerate().skip(from) {
        let place = *by_name.entry(&item.name).or_insert(keys.len());
        let Some(key) = keys.get_mut(place) else {
            keys.push(KeyCharges { items: smallvec![index], runs: smallvec![(item.cost, 1)] });
            continue;
        };
        let is_alike =
            |first: &Item| first.rule.quota_id() == item.rule.quota_id() && first.at == item.at;
        if !key.first(items).is_some_and(is_alike) {
            return (keys, index);
        }
        key.items.push(index);
        match key.runs.last_mut() {
            Some((cost, count)) if *cost == item.cost => *count += 1,
            _ => key.runs.push((item.cost, 1)),
        }
    }
    (keys, items.len())
}

impl KeyCharges {
    pub(super) fn first<'i>(&self, items: &[&'i Item]) -> Option<&'i Item> {
        self.items.first().and_then(|index| items.get(*index)).copied()
    }
}

fn drafts_of(items: &[&Item], keys: Vec<KeyCharges>, has_slots: bool) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    let mut newest: HashMap<Common, usize> = HashMap::new();
    for key in keys {
        let Some(item) = key.first(items) else { continue };
        let slot = has_slots.then(|| slot_of(item.name.as_bytes()));
        let newest = newest.entry((slot, item.step, instant_of(item.at).0)).or_insert(usize::MAX);
        match drafts.get_mut(*newest).filter(|draft| draft.keys < KEYS_MAX) {
            Some(draft) => draft.add(items, key),
            None => {
                *newest = drafts.len();
                drafts.push(Draft { blocks: vec![vec![key]], keys: 1 });
            }
        }
    }
    drafts
}

impl Draft {
    fn add(&mut self, items: &[&Item], key: KeyCharges) {
        self.keys += 1;
        let quota_id = |key: &KeyCharges| key.first(items).map(|item| item.rule.quota_id());
        let is_alike = |block: &&mut Vec<KeyCharges>| {
            let first = block.first();
            first.is_some_and(|first| first.runs == key.runs && quota_id(first) == quota_id(&key))
        };
        match self.blocks.iter_mut().find(is_alike) {
            Some(block) => block.push(key),
            None => self.blocks.push(vec![key]),
        }
    }

    fn finish(self, items: &[&Item], scripts: &Scripts) -> Option<(Call, Decoder)> {
        let head = self.blocks.first()?.first()?.first(items)?;
        let mut args = Args::default();
        write_instant(&mut args, head.at);
        for block in &self.blocks {
            write_block(&mut args, items, block);
        }
        let keys: Vec<KeyCharges> = self.blocks.into_iter().flatten().collect();
        let names = keys.iter().filter_map(|key| Some(key.first(items)?.name.clone())).collect();
        let call = Call::new(scripts.of(Frame::ChargeMany(head.step)), names, args);
        Some((call, Decoder { keys }))
    }
}

/// Keys that are charged alike under one quota: their arguments, once.
fn write_block(args: &mut Args, items: &[&Item], block: &[KeyCharges]) {
    let Some((key, item)) = block.first().and_then(|key| Some((key, key.first(items)?))) else {
        return;
    };
    args.unsigned(block.len() as u64);
    args.unsigned(key.runs.len() as u64);
    write_quota(args, &item.rule);
    for (cost, count) in &key.runs {
        args.integer(*count);
        write_cost(args, &item.rule, *cost);
    }
}

/// The instant, and how long states outlive their meaning.
pub(super) fn write_instant(args: &mut Args, at: TimeSource) {
    let (instant, grace) = instant_of(at);
    args.integer(instant.map_or(-1, u64::cast_signed));
    args.integer(grace);
}

/// The instant, unless the server's clock decides, and the grace.
pub(super) fn instant_of(at: TimeSource) -> (Option<u64>, i64) {
    match at {
        TimeSource::StoreClock => (None, GRACE_MS),
        TimeSource::Given(at) => (Some(Now::at(at).reading()), GRACE_GIVEN_MS),
    }
}

/// How long a state outlives its meaning on the server: the largest step back of its clock that is
/// covered.
const GRACE_MS: i64 = 60_000;
/// The same when the caller gives the instant: that need not pass as fast as on the server.
const GRACE_GIVEN_MS: i64 = 3_600_000;
