//! Single charges on their way into calls: many keys and many charges of one key share a script.
//!
//! The charges of a key are gathered in order, equal ones as a run. Keys that are charged alike under
//! one quota form a block, so that their arguments travel once. A call carries blocks of one step.

use std::collections::HashMap;

use tollgate_core::algorithm::ScriptedStep;
use tollgate_core::store::{Evidence, TimeSource};
use tollgate_core::{Charge, Cost, Error, Now, Result, Rule};

use super::place::{Place, Whereabouts};
use super::reply::{Found, Numbers, full};
use super::take::Take;
use crate::script::{Frame, Scripts, list_of_one, write_cost, write_quota};
use crate::transport::{Args, Call, Reply};

/// Keys in one call: the server answers nobody else while it runs, about a third of a millisecond.
const KEYS_MAX: usize = 64;
/// What the arguments of one key take.
const ARGS_BYTES: usize = 160;
const ARGS_COUNT: usize = 16;
/// How many of the newest blocks a key may join.
const BLOCKS_LOOKED_AT: usize = 4;

/// One charge.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) rule: Rule,
    pub(super) step: ScriptedStep,
    pub(super) cost: Cost,
    pub(super) at: TimeSource,
}

impl Item {
    pub(super) fn new(
        charge: &Charge<'_>,
        (name, step): (String, ScriptedStep),
        at: TimeSource,
    ) -> Self {
        Self { name, rule: charge.rule().clone(), step, cost: charge.cost, at }
    }
}

/// What became of an item.
#[derive(Debug)]
pub(super) enum Answer {
    Decided(Evidence),
    /// The state is of another quota, or cannot be read: nothing was done.
    LookCloser,
    Failed(Error),
}

impl Answer {
    /// Whether the server was heard.
    pub(super) fn is_heard(&self) -> bool {
        !matches!(self, Self::Failed(error) if error.is_outage())
    }
}

/// The charges of one key: which items they are, and how many of each cost in a row. Most keys are
/// charged once, and then nothing is allocated for them.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) first: usize,
    others: Vec<usize>,
    run: Run,
    other_runs: Vec<Run>,
}

/// A cost, and how often in a row.
type Run = (Cost, i64);

impl Group {
    const fn of(first: usize, cost: Cost) -> Self {
        Self { first, others: Vec::new(), run: (cost, 1), other_runs: Vec::new() }
    }

    fn add(&mut self, index: usize, cost: Cost) {
        self.others.push(index);
        match self.other_runs.last_mut().unwrap_or(&mut self.run) {
            (last, count) if *last == cost => *count += 1,
            _ => self.other_runs.push((cost, 1)),
        }
    }

    pub(super) fn items(&self) -> impl Iterator<Item = usize> {
        core::iter::once(self.first).chain(self.others.iter().copied())
    }

    fn runs(&self) -> impl Iterator<Item = Run> {
        core::iter::once(self.run).chain(self.other_runs.iter().copied())
    }

    fn is_charged_as(&self, other: &Self) -> bool {
        self.run == other.run && self.other_runs == other.other_runs
    }
}

/// Turns items into calls: those of one key stay in order.
pub(super) fn calls_of(
    items: &[&Item],
    scripts: &Scripts,
    whereabouts: &Whereabouts,
) -> Vec<(Call, Take)> {
    let mut calls = Vec::with_capacity(1);
    let mut rest = 0;
    while rest < items.len() {
        let (groups, end) = gather(items, rest);
        let drafts = drafts_of(items, groups, whereabouts).into_iter();
        calls.extend(drafts.map(|draft| draft.finish(items, scripts, whereabouts)));
        rest = end;
    }
    calls
}

/// The call of a charge that is alone in it.
pub(super) fn call_of(
    charge: &Charge<'_>,
    (name, slot, step): (String, Option<u16>, ScriptedStep),
    at: TimeSource,
    scripts: &Scripts,
) -> Call {
    let args = list_of_one(charge.rule(), charge.cost, instant_of(at));
    Call::of_one(scripts.of(Frame::ChargeOne(step)), name, slot, args)
}

/// The call of a key that has to be alone in it, wherever it is.
pub(super) fn call_apart(group: Group, items: &[&Item], scripts: &Scripts) -> (Call, Take) {
    let draft = Draft::of(group, Place::Anywhere);
    following(draft.finish(items, scripts, &Whereabouts::anywhere()))
}

/// The same for one key, which goes wherever it is sent.
pub(super) fn following((call, take): (Call, Take)) -> (Call, Take) {
    (call.following(), Take { is_last: true, ..take })
}

/// What became of the charge of [`call_of`].
pub(super) fn answer_of(charge: &Charge<'_>, reply: Result<Reply>) -> Answer {
    let read = |reply: Reply| {
        let mut numbers = Numbers::of(reply.ok()?)?;
        Ok(match numbers.found(charge.rule().quota_id())? {
            Found::State(state) => Answer::Decided(Evidence::decided(numbers.now(), state)),
            // No other key brought it here: it is where the server says.
            Found::Another | Found::Away => Answer::LookCloser,
            Found::Full => Answer::Failed(full()),
        })
    };
    reply.and_then(read).unwrap_or_else(Answer::Failed)
}

/// The groups of the items from `from` on, up to one that comes under another quota or at another
/// instant than those before it on its key: it must not be sent before their answer is certain.
fn gather(items: &[&Item], from: usize) -> (Vec<Group>, usize) {
    let mut by_name: HashMap<&str, usize> = HashMap::with_capacity(items.len() - from);
    let mut groups: Vec<Group> = Vec::with_capacity(items.len() - from);
    for (index, item) in items.iter().enumerate().skip(from) {
        let place = *by_name.entry(&item.name).or_insert(groups.len());
        let Some(group) = groups.get_mut(place) else {
            groups.push(Group::of(index, item.cost));
            continue;
        };
        let first = items.get(group.first);
        if first.is_none_or(|first| {
            first.rule.quota_id() != item.rule.quota_id() || first.at != item.at
        }) {
            return (groups, index);
        }
        group.add(index, item.cost);
    }
    (groups, items.len())
}

/// A call in the making: keys that are charged alike form a block.
struct Draft {
    place: Place,
    first: Vec<Group>,
    others: Vec<Vec<Group>>,
    keys: usize,
}

/// What a call must have in common: the place, the step and the instant.
type Common = (Place, ScriptedStep, Option<u64>);

fn drafts_of(items: &[&Item], groups: Vec<Group>, whereabouts: &Whereabouts) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    let mut open: HashMap<Common, usize> = HashMap::new();
    for group in groups {
        let Some(item) = items.get(group.first) else { continue };
        let at = match item.at {
            TimeSource::StoreClock => None,
            TimeSource::Given(at) => Some(at),
        };
        let place = whereabouts.of(&item.name);
        let newest = open.entry((place, item.step, at)).or_insert(usize::MAX);
        match drafts.get_mut(*newest).filter(|draft| draft.keys < KEYS_MAX) {
            Some(draft) => draft.add(items, group),
            None => {
                *newest = drafts.len();
                drafts.push(Draft::of(group, place));
            }
        }
    }
    drafts
}

impl Draft {
    fn of(group: Group, place: Place) -> Self {
        Self { place, first: vec![group], others: Vec::new(), keys: 1 }
    }

    fn add(&mut self, items: &[&Item], group: Group) {
        self.keys += 1;
        let quota_id_of = |group: &Group| items.get(group.first).map(|item| item.rule.quota_id());
        let alike = |block: &&mut Vec<Group>| {
            let other = block.first();
            other.is_some_and(|other| {
                other.is_charged_as(&group) && quota_id_of(other) == quota_id_of(&group)
            })
        };
        let blocks = self.others.iter_mut().rev().chain(core::iter::once(&mut self.first));
        match blocks.take(BLOCKS_LOOKED_AT).find(alike) {
            Some(block) => block.push(group),
            None => self.others.push(vec![group]),
        }
    }

    fn head<'i>(&self, items: &'i [&Item]) -> Option<&'i Item> {
        self.first.first().and_then(|group| items.get(group.first)).copied()
    }

    fn finish(self, items: &[&Item], scripts: &Scripts, whereabouts: &Whereabouts) -> (Call, Take) {
        let head = self.head(items);
        let shared = head.filter(|_| self.keys > 1);
        let stranger = shared.and_then(|item| whereabouts.stranger(self.place, &item.name));
        let script = head.map_or_else(
            || scripts.load.clone(),
            |item| match stranger {
                Some(_) => scripts.of(Frame::Spread(item.step)),
                None => scripts.of(Frame::ChargeMany(item.step)),
            },
        );
        let mut args = Args::with_capacity(ARGS_BYTES, ARGS_COUNT);
        if let Some(item) = head {
            write_instant(&mut args, item.at);
        }
        for block in core::iter::once(&self.first).chain(&self.others) {
            let first = block.first().and_then(|group| items.get(group.first));
            first.into_iter().for_each(|item| write_block(&mut args, &item.rule, block));
        }
        let mut groups = self.first;
        groups.extend(self.others.into_iter().flatten());
        let named = groups.iter().filter_map(|group| items.get(group.first));
        let names = named.map(|item| item.name.clone()).collect();
        let call = match stranger {
            Some(stranger) => Call::spread(script, names, stranger, args),
            None => Call::new(script, names, args).handing_back(),
        };
        (call, Take { groups, is_last: false })
    }
}

/// Keys that are charged alike under one quota: their arguments, once.
fn write_block(args: &mut Args, rule: &Rule, block: &[Group]) {
    let Some(group) = block.first() else { return };
    args.unsigned(block.len() as u64);
    args.unsigned(group.runs().count() as u64);
    write_quota(args, rule);
    for (cost, count) in group.runs() {
        args.integer(count);
        write_cost(args, rule, cost);
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
/// The same when the caller says what time it is: that need not pass as fast as on the server.
const GRACE_GIVEN_MS: i64 = 3_600_000;
