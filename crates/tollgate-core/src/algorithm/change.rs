//! Changed quotas: what was spent stays spent, and no order of changes mints units.
//!
//! # Several quotas at once
//! A key keeps a state under each quota that it was asked under and that still counts something.
//! The state of the quota that is asked decides. What is granted is counted under all, under the
//! others at most as far as their ceiling where the rest would take longer than a full debt to
//! decay. So each quota alone admits no more than it may, whatever others are asked in between, and
//! none locks a key out for longer than it needs itself: a state under another quota decays as if
//! its own quota had never been replaced. Units that are given back are given back under the quota
//! that is asked; the others keep counting them, since they may have counted fewer.
//!
//! # First contact
//! A window under another limit keeps its counts: they mean the same. Under any other quota that
//! the key has no state of, it owes at once what it owes under the one that counts most, rounded
//! up to a whole unit and at most the new ceiling: no free refill, and no wait longer than the new
//! quota needs. That state is written whatever the verdict, so that the waiting time it implies
//! counts from there.
//!
//! # Debt
//! What is owed beyond a ceiling is owed under the quota that it was charged under. Another quota
//! takes over no more than its own ceiling, and counts it from now: what a schedule has ahead of
//! the clock is the time that it has seen only as far as clocks may differ.
//!
//! # Forgetting
//! A state under another quota is forgotten when it counts nothing any more, and when there are too
//! many: then the one that owes least. A clock that steps back after that finds what is owed under
//! the quotas that are left.

use super::{Debt, Write};
use crate::cost::Cost;
use crate::error::{Code, Error, Result};
use crate::rule::Rule;
use crate::state::{QuotaState, State, Words};
use crate::time::{MICROS_PER_MS, Micros, Now};

/// How many states under other quotas a key keeps.
const OTHERS_MAX: usize = 3;

/// The state of a key as it stands under a quota that did not write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The state, under the quota that is asked.
    pub state: State,
    /// From this instant on it means the same as none.
    pub fresh_at: Micros,
    /// Whether the key had no state under this quota: then this one is written even if the charge
    /// is denied.
    pub is_first: bool,
}

/// A state under another quota, with its algorithm.
struct Other {
    rule: Rule,
    kept: QuotaState,
}

/// The state as `rule` reads it, if the quota that wrote it is another one.
///
/// # Errors
/// `corrupt_state` when the state is not one of its quota, or is of an unknown algorithm.
pub fn migrate_state(rule: &Rule, state: &State, now: Now) -> Result<Option<Carried>> {
    let family = rule.quota_id().family();
    if state.quota_id.family() == family {
        return if rule.accepts(&state.words) { Ok(None) } else { Err(corrupt()) };
    }
    let replaced = QuotaState { quota_id: state.quota_id, words: state.words.clone() };
    let (own, others): (Vec<QuotaState>, Vec<QuotaState>) =
        state.others.iter().cloned().partition(|kept| kept.quota_id.family() == family);
    let others = others.into_iter().chain([replaced]).map(|kept| Other::of(rule, kept));
    let mut others: Vec<Other> = others.collect::<Result<_>>()?;
    let (words, own_end, is_first) = match own.into_iter().next() {
        Some(own) if rule.accepts(&own.words) => {
            let end = end_of(rule, &own.words, now);
            (own.words, end, false)
        }
        Some(_) => return Err(corrupt()),
        None => {
            let Write { words, fresh_at } = rule.indebted(first_debt(rule, &others, now));
            forget_some(&mut others, now);
            (words, fresh_at, true)
        }
    };
    let fresh_at = others.iter().map(|other| other.end(now)).fold(own_end, Micros::max);
    let others = others.into_iter().map(|other| other.kept).collect();
    let state = State { quota_id: rule.quota_id(), words, others };
    Ok(Some(Carried { state, fresh_at, is_first }))
}

/// The next state of a key, and when it is fresh again: what the quota that was asked writes, and
/// the other states after the same charge, if it was one.
///
/// # Errors
/// `corrupt_state` when another state is not one of its quota, or is of an unknown algorithm.
pub fn next_state(
    rule: &Rule,
    write: Write,
    (others, charged): (&[QuotaState], Option<Cost>),
    now: Now,
) -> Result<(State, Micros)> {
    let Write { words, mut fresh_at } = write;
    let mut state = State::new(rule.quota_id(), words);
    for kept in others {
        let mut other = Other::of(rule, kept.clone())?;
        if !other.counts(now) {
            continue;
        }
        if let Some(cost) = charged
            && let Some(write) = other.rule.count_granted(&other.kept.words, now, cost)
        {
            other.kept.words = write.words;
        }
        fresh_at = fresh_at.max(other.end(now));
        state.others.push(other.kept);
    }
    Ok((state, fresh_at))
}

impl Other {
    /// The algorithm of the state, as `rule` knows it.
    fn of(rule: &Rule, kept: QuotaState) -> Result<Self> {
        let known = rule.recall(kept.quota_id);
        let rule = known.filter(|old| old.accepts(&kept.words)).ok_or_else(corrupt)?;
        Ok(Self { rule, kept })
    }

    fn debt(&self, now: Now) -> Debt {
        self.rule.debt(&self.kept.words, now)
    }

    fn counts(&self, now: Now) -> bool {
        self.debt(now).units > 0
    }

    fn end(&self, now: Now) -> Micros {
        end_of(&self.rule, &self.kept.words, now)
    }
}

/// Not before this instant does a state that was written by now mean the same as none.
fn end_of(rule: &Rule, words: &Words, now: Now) -> Micros {
    // What was seen is rounded down to a microsecond.
    let full = rule.debt(words, now).seen.saturating_add(rule.horizon()).saturating_add(1);
    // A debt lasts longer than a full key does.
    let reset_at_ms = rule.peek(words, now, Cost::ONE).reset_at_ms;
    full.max(reset_at_ms.saturating_mul(MICROS_PER_MS))
}

/// What a key owes under a quota that it has no state of.
fn first_debt(rule: &Rule, others: &[Other], now: Now) -> Debt {
    let none = Debt { units: 0, seen: 0 };
    let most = others.iter().map(|other| other.debt(now)).fold(none, |most, debt| Debt {
        units: most.units.max(debt.units),
        seen: most.seen.max(debt.seen),
    });
    Debt { units: most.units.min(rule.ceiling()), ..most }
}

/// Forgets the states that count nothing, and those that owe least if there are too many.
fn forget_some(others: &mut Vec<Other>, now: Now) {
    others.retain(|other| other.counts(now));
    if others.len() > OTHERS_MAX {
        others.sort_by_key(|other| {
            core::cmp::Reverse((other.debt(now).units, other.kept.quota_id.family().0))
        });
        others.truncate(OTHERS_MAX);
    }
}

fn corrupt() -> Error {
    Error::new(
        Code::CorruptState,
        "a stored state does not fit its algorithm; reset the key to start it afresh",
    )
}
