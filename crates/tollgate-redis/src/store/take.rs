//! What a call for single charges has decided: each of them gets its answer, or has to be asked for alone.

use tollgate_core::store::Evidence;
use tollgate_core::{Error, Now, Result, Rule, State};

use super::items::{Answer, Group, Item};
use super::reply::{Found, Numbers, full, unreadable};
use crate::meaning::{is_for_one_key, is_sent_on};
use crate::transport::Reply;

/// The items that a call decides, in the order of its reply.
#[derive(Debug)]
pub(super) struct Take {
    pub(super) groups: Vec<Group>,
    /// Whether the call was for one key, and has followed it.
    pub(super) is_last: bool,
}

impl Take {
    /// Hands every item its answer, by its index. Keys that are on another node than those they came with
    /// have none, and are returned to be asked for alone: then every key is somewhere.
    pub(super) fn read(
        self,
        items: &[&Item],
        reply: Result<Reply>,
        mut tell: impl FnMut(usize, Answer),
    ) -> Vec<Group> {
        let is_meant_for_one = match self.groups.len() {
            1 => is_sent_on(&reply),
            _ => is_for_one_key(&reply),
        };
        if is_meant_for_one && !self.is_last {
            return self.groups;
        }
        let mut numbers = match reply.and_then(Reply::ok).and_then(Numbers::of) {
            Ok(numbers) => numbers,
            Err(error) => {
                self.groups.iter().for_each(|group| fail(group, &error, &mut tell));
                return Vec::new();
            }
        };
        let mut away = Vec::new();
        for group in self.groups {
            let Some(rule) = items.get(group.first).map(|item| &item.rule) else { continue };
            match numbers.found(rule.quota_id()) {
                Ok(Found::State(state)) => {
                    replay(&group, items, (rule, numbers.now()), state, &mut tell);
                }
                Ok(Found::Away) if !self.is_last => away.push(group),
                Ok(Found::Another | Found::Away) => {
                    group.items().for_each(|index| tell(index, Answer::LookCloser));
                }
                Ok(Found::Full) => fail(&group, &full(), &mut tell),
                Err(_) => fail(&group, &unreadable(), &mut tell),
            }
        }
        away
    }
}

fn fail(group: &Group, error: &Error, tell: &mut impl FnMut(usize, Answer)) {
    group.items().for_each(|index| tell(index, Answer::Failed(error.clone())));
}

/// The charges of a key one after another, as the script has run them.
fn replay(
    group: &Group,
    items: &[&Item],
    (rule, now): (&Rule, Now),
    mut state: Option<State>,
    tell: &mut impl FnMut(usize, Answer),
) {
    let mut rest = group.items().peekable();
    while let Some(index) = rest.next() {
        let following = rest.peek().and_then(|_| {
            let words = state.as_ref().map_or(&[][..], |state| &state.words);
            let cost = items.get(index)?.cost;
            rule.step(words, now, cost).write
        });
        let after = following
            .map(|write| State { quota_id: rule.quota_id(), words: write.words })
            .or_else(|| rest.peek().and_then(|_| state.clone()));
        tell(index, Answer::Decided(Evidence::decided(now, state)));
        state = after;
    }
}
