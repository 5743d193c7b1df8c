//! States of keys and contents of lines, translated into each other.

use super::fill::Fill;
use super::line::{Content, Held, SHORT};
use super::policies::PolicyStates;
use super::shard::Shard;
use crate::algorithm::{Debt, Write};
use crate::error::{Code, Error, Result};
use crate::rule::Rule;
use crate::state::{State, Words};
use crate::time::{Micros, Now};

/// The tag of a line whose key has states under several quotas: of no quota, so that every charge
/// takes the general path. A quota has it by a chance of 2^-64; its longer states are then read as
/// full debts.
const SEVERAL: u64 = u64::MAX;

impl PolicyStates {
    /// The state in a line; the largest debt if its quota is not known any more.
    pub(super) fn state_in(
        &self,
        held: &Held<'_>,
        rule: &Rule,
        shard: &Shard,
        at: Micros,
    ) -> Option<State> {
        if held.tag() == SEVERAL
            && let Some(Content::Long { index, .. }) = held.content()
        {
            let state = State::from_numbers(shard.spilled(index));
            return state.or_else(|| Some(State::of(rule, rule.indebted(full_debt(rule, at)))));
        }
        let is_own = held.tag() == rule.quota_tag();
        let quota_id = is_own.then(|| rule.quota_id()).or_else(|| self.quota_ids.of(held.tag()));
        let content = held.content()?;
        let Some(quota_id) = quota_id else {
            let is_empty = matches!(&content, Content::Short { words, .. } if words.is_empty());
            if is_empty || content.fresh_at() <= at {
                return None;
            }
            // When it ends says nothing about units of another quota.
            return Some(State::of(rule, rule.indebted(full_debt(rule, at))));
        };
        let words = match content {
            Content::PackedSchedule { word, scale, .. } => {
                Words::new(&[word / scale.max(1), word % scale.max(1)])
            }
            Content::Short { words, .. } => words,
            Content::Long { index, .. } => Words::new(shard.spilled(index)),
        };
        (!words.is_empty()).then(|| State::new(quota_id, words))
    }

    /// How a state is kept in a line of a shard, which has a number, and the tag of its line. Its
    /// quota is kept.
    ///
    /// # Errors
    /// `queue_full` if there is no memory for a long state.
    pub(super) fn content_of(
        &self,
        rule: &Rule,
        (state, fresh_at): (&State, Micros),
        (shard, number): (&mut Shard, usize),
        now: Now,
    ) -> Result<(u64, Content)> {
        self.quota_ids.note(rule, &self.table, now.effective());
        let words = &state.words;
        let fill = || Fill::of(rule.debt(words, now).units, rule.ceiling());
        if !state.others.is_empty() {
            let index = self.spill(&state.to_numbers(), (shard, number), now)?;
            return Ok((SEVERAL, Content::Long { fresh_at, index, fill: fill() }));
        }
        let content = if let Some(packed) = rule.packed_schedule() {
            Content::PackedSchedule {
                word: packed.pack(words),
                scale: packed.scale(),
                throttled_above: packed.throttled_above(),
            }
        } else if words.len() <= SHORT {
            Content::Short { fresh_at, words: words.clone(), fill: fill() }
        } else {
            let index = self.spill(words, (shard, number), now)?;
            Content::Long { fresh_at, index, fill: fill() }
        };
        Ok((rule.quota_tag(), content))
    }

    /// Keeps words outside of their line; where they are.
    fn spill(&self, words: &[u64], (shard, number): (&mut Shard, usize), now: Now) -> Result<u64> {
        let (at, mut index) = (now.effective(), shard.spill(&self.table, words));
        if index.is_none() && shard.may_retry(at) {
            shard.free_expired(&self.table, number, at, (0, usize::MAX));
            index = shard.spill(&self.table, words);
            if index.is_none() {
                shard.found_no_memory(at);
            }
        }
        index.ok_or_else(no_memory)
    }
}

impl State {
    /// The state that a rule writes.
    pub(super) fn of(rule: &Rule, write: Write) -> Self {
        Self::new(rule.quota_id(), write.words)
    }
}

/// As much as a quota can be owed.
pub(super) fn full_debt(rule: &Rule, seen: Micros) -> Debt {
    Debt { units: rule.ceiling(), seen }
}

/// The error of a state that cannot be kept; nothing was charged.
pub(super) fn no_memory() -> Error {
    Error::new(Code::QueueFull, "no memory for the state of this key; try again later")
}
