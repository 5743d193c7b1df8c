//! Single charges on their way into calls: many keys and many charges of one key share a script.
//!
//! The charges of a key are gathered in order, equal ones as a run. Keys that are charged alike under
//! one quota form a block, so that their arguments travel once. A call carries blocks of one twin.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::algorithm::kernel::Source;
use tollgate_core::store::{At, Outcome};
use tollgate_core::{Cost, Error, Result, Rule, State};

use super::reply::{Found, Numbers, full, unreadable};
use crate::script::{Script, Scripts};
use crate::transport::{Args, Call, Reply};

/// Keys in one call: the server answers nobody else while it runs, about a third of a millisecond.
const KEYS_MAX: usize = 64;
/// How many of the newest blocks a key may join.
const BLOCKS_LOOKED_AT: usize = 4;

/// One charge.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) rule: Rule,
    pub(super) twin: Source,
    pub(super) cost: Cost,
    pub(super) at: At,
}

/// What became of an item.
#[derive(Debug)]
pub(super) enum Answer {
    Decided(Outcome),
    /// The state is of another quota, or cannot be read: nothing was done.
    LookCloser,
    Failed(Error),
}

/// The charges of one key: which items they are, and how many of each cost in a row.
#[derive(Debug)]
struct Group {
    items: Vec<usize>,
    runs: Vec<(Cost, i64)>,
}

/// The items that a call decides, in the order of its reply.
#[derive(Debug)]
pub(super) struct Take {
    groups: Vec<Group>,
}

/// Turns items into calls: those of one key stay in order.
pub(super) fn calls_of(
    items: &[&Item],
    scripts: &Scripts,
    slot_of: impl Fn(&str) -> Option<u16>,
) -> Vec<(Call, Take)> {
    let mut calls = Vec::new();
    let mut rest = 0;
    while rest < items.len() {
        let (groups, end) = gather(items, rest);
        calls.extend(
            drafts_of(items, groups, &slot_of).into_iter().map(|d| d.finish(items, scripts)),
        );
        rest = end;
    }
    calls
}

/// The groups of the items from `from` on, up to one that comes under another quota or at another
/// instant than those before it on its key: it must not be sent before their answer is certain.
fn gather(items: &[&Item], from: usize) -> (Vec<Group>, usize) {
    let mut by_name: HashMap<&str, usize> = HashMap::with_capacity(items.len() - from);
    let mut groups: Vec<Group> = Vec::with_capacity(items.len() - from);
    for (index, item) in items.iter().enumerate().skip(from) {
        let known = by_name.get(item.name.as_str()).and_then(|group| groups.get_mut(*group));
        let Some(group) = known else {
            by_name.insert(&item.name, groups.len());
            groups.push(Group { items: vec![index], runs: vec![(item.cost, 1)] });
            continue;
        };
        let first = group.items.first().and_then(|first| items.get(*first));
        if first.is_none_or(|first| first.rule.shape() != item.rule.shape() || first.at != item.at)
        {
            return (groups, index);
        }
        group.items.push(index);
        match group.runs.last_mut() {
            Some((cost, count)) if *cost == item.cost => *count += 1,
            _ => group.runs.push((item.cost, 1)),
        }
    }
    (groups, items.len())
}

/// Keys that are charged alike.
struct Block {
    groups: Vec<Group>,
}

/// A call in the making.
struct Draft {
    blocks: Vec<Block>,
    keys: usize,
}

/// What a call must have in common: the slot, the twin and the instant.
type Common = (Option<u16>, usize, Option<u64>);

fn drafts_of(
    items: &[&Item],
    groups: Vec<Group>,
    slot_of: impl Fn(&str) -> Option<u16>,
) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    let mut open: HashMap<Common, usize> = HashMap::new();
    for group in groups {
        let Some(item) = group.items.first().and_then(|first| items.get(*first)) else { continue };
        let at = match item.at {
            At::StoreClock => None,
            At::Given(at) => Some(at),
        };
        let place =
            open.entry((slot_of(&item.name), item.twin.address(), at)).or_insert(usize::MAX);
        if drafts.get(*place).is_none_or(|draft| draft.keys >= KEYS_MAX) {
            *place = drafts.len();
            drafts.push(Draft { blocks: Vec::new(), keys: 0 });
        }
        if let Some(draft) = drafts.get_mut(*place) {
            draft.add(items, group);
        }
    }
    drafts
}

impl Draft {
    fn add(&mut self, items: &[&Item], group: Group) {
        self.keys += 1;
        let shape_of = |group: &Group| Some(items.get(*group.items.first()?)?.rule.shape());
        let alike = |block: &&mut Block| {
            let other = block.groups.first();
            other.is_some_and(|other| {
                other.runs == group.runs && shape_of(other) == shape_of(&group)
            })
        };
        match self.blocks.iter_mut().rev().take(BLOCKS_LOOKED_AT).find(alike) {
            Some(block) => block.groups.push(group),
            None => self.blocks.push(Block { groups: vec![group] }),
        }
    }

    fn finish(self, items: &[&Item], scripts: &Scripts) -> (Call, Take) {
        let mut names = Vec::with_capacity(self.keys);
        let mut args = Args::default();
        let mut script: Option<Arc<Script>> = None;
        let mut numbers = Vec::new();
        let mut all = Vec::with_capacity(self.keys);
        for block in self.blocks {
            let first = block.groups.first().and_then(|group| group.items.first());
            let Some(item) = first.and_then(|first| items.get(*first)) else { continue };
            if script.is_none() {
                script = Some(scripts.take(item.twin));
                write_instant(&mut args, item.at);
            }
            let runs = block.groups.first().map_or(&[][..], |group| &group.runs);
            args.unsigned(block.groups.len() as u64);
            args.unsigned(runs.len() as u64);
            write_rule(&mut args, &item.rule);
            for (cost, count) in runs {
                args.integer(*count);
                numbers.clear();
                item.rule.kernel_cost(*cost, &mut numbers);
                numbers.iter().for_each(|number| args.integer(*number));
            }
            for group in &block.groups {
                let name = group.items.first().and_then(|first| items.get(*first));
                names.push(name.map_or_else(String::new, |item| item.name.clone()));
            }
            all.extend(block.groups);
        }
        let script = script.unwrap_or_else(|| scripts.load.clone());
        (Call::new(script, names, args), Take { groups: all })
    }
}

/// The instant, and how long states outlive their meaning.
pub(super) fn write_instant(args: &mut Args, at: At) {
    match at {
        At::StoreClock => {
            args.integer(-1);
            args.integer(GRACE_MS);
        }
        At::Given(at) => {
            args.unsigned(tollgate_core::Now::at(at).reading());
            args.integer(GRACE_GIVEN_MS);
        }
    }
}

/// How long a state outlives its meaning on the server: the largest step back of its clock that is
/// covered.
const GRACE_MS: i64 = 60_000;
/// The same when the caller says what time it is: that need not pass as fast as on the server.
const GRACE_GIVEN_MS: i64 = 3_600_000;

/// The texts and numbers of a quota, as its twin expects them.
pub(super) fn write_rule(args: &mut Args, rule: &Rule) {
    let [tag, a, b, c] = rule.shape().0;
    args.text(&format!("{tag},{a},{b}"));
    args.text(&format!("{tag},{a},{b},{c}"));
    for number in rule.kernel().map(|kernel| kernel.rule).unwrap_or_default() {
        args.unsigned(number);
    }
}

impl Take {
    /// Hands every item its answer, by its index.
    pub(super) fn read(
        self,
        items: &[&Item],
        reply: Result<Reply>,
        mut tell: impl FnMut(usize, Answer),
    ) {
        let read = reply.and_then(Reply::ok).and_then(Numbers::of);
        let mut numbers = match read {
            Ok(numbers) => numbers,
            Err(error) => {
                for index in self.groups.iter().flat_map(|group| &group.items) {
                    tell(*index, Answer::Failed(error.again()));
                }
                return;
            }
        };
        for group in &self.groups {
            match numbers.found() {
                Ok(Found::Words(words)) => replay(group, items, &numbers, &words, &mut tell),
                Ok(Found::Another) => {
                    group.items.iter().for_each(|index| tell(*index, Answer::LookCloser));
                }
                Ok(Found::Full) => {
                    group.items.iter().for_each(|index| tell(*index, Answer::Failed(full())));
                }
                Err(_) => {
                    group.items.iter().for_each(|index| tell(*index, Answer::Failed(unreadable())));
                }
            }
        }
    }
}

/// The charges of a key one after another, as the script has run them.
fn replay(
    group: &Group,
    items: &[&Item],
    numbers: &Numbers,
    words: &[u64],
    tell: &mut impl FnMut(usize, Answer),
) {
    let Some(first) = group.items.first().and_then(|first| items.get(*first)) else { return };
    let (rule, now) = (&first.rule, numbers.now());
    let mut state = (!words.is_empty())
        .then(|| State { shape: rule.shape(), words: tollgate_core::Words::new(words) });
    let mut rest = group.items.iter().peekable();
    while let Some(index) = rest.next() {
        let following = rest.peek().and_then(|_| {
            let words = state.as_ref().map_or(&[][..], |state| &state.words);
            let cost = items.get(*index)?.cost;
            rule.step(words, now, cost).write
        });
        tell(*index, Answer::Decided(Outcome::decided(now, vec![state.clone()])));
        if let Some(write) = following {
            state = Some(State { shape: rule.shape(), words: write.words });
        }
    }
}
