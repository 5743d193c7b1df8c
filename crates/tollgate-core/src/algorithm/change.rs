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
//! # Forgetting
//! A state under another quota is forgotten when it counts nothing any more, and when there are too
//! many: then the one that owes least. A clock that steps back after that finds what is owed under
//! the quotas that are left.

use super::{Debt, Write};
use crate::cost::Cost;
use crate::error::{Code, Error, Result};
use crate::rule::Rule;
use crate::state::{QuotaState, State, Words};
use crate::time::{Micros, Now};

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
    rule.debt(words, now).seen.saturating_add(rule.horizon()).saturating_add(1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Gcra, SlidingLog};
    use crate::limit::Limit;
    use crate::quota::Quota;
    use crate::store::{Plan, plan};

    const SECOND: Micros = 1_000_000;
    const START: Micros = 1_700_000_000_000_000;

    fn gcra(limit: u64, seconds: u64) -> Rule {
        Rule::new(Gcra::new(Quota::new(limit, core::time::Duration::from_secs(seconds))).unwrap())
    }

    fn log(limit: u64, seconds: u64) -> Rule {
        let quota = Quota::new(limit, core::time::Duration::from_secs(seconds));
        Rule::new(SlidingLog::new(quota).unwrap())
    }

    /// Charges a key whose state may be written.
    fn charge(state: &mut Option<State>, rule: &Rule, at: Micros, units: u64) -> Plan {
        let limit = Limit::with_rule("p", rule.clone()).unwrap();
        let charges = [limit.charge("x").cost(Cost::new(units).unwrap())];
        let planned = plan(&charges, &[0], std::slice::from_ref(state), Now::at(at)).unwrap();
        if let Some(write) = planned.writes.first() {
            *state = Some(write.state.clone());
        }
        planned
    }

    fn kept(state: Option<&State>) -> usize {
        state.map_or(0, |state| state.others.len())
    }

    #[test]
    fn a_state_under_another_quota_is_kept_until_it_counts_nothing() {
        let (high, low) = (gcra(10, 10), gcra(2, 10));
        let mut state = None;
        assert!(charge(&mut state, &high, START, 10).admitted);
        assert!(!charge(&mut state, &low, START, 1).admitted);
        assert_eq!(kept(state.as_ref()), 1);
        // A charge counts under both: this one for a second, after nine units have come back.
        assert!(charge(&mut state, &low, START + 9 * SECOND, 1).admitted);
        assert_eq!(kept(state.as_ref()), 1);
        assert!(charge(&mut state.clone(), &high, START + 9 * SECOND, 8).admitted);
        assert!(!charge(&mut state.clone(), &high, START + 9 * SECOND, 9).admitted);
        let mut later = state.clone();
        assert!(charge(&mut state, &low, START + 11 * SECOND - 1, 1).admitted);
        assert_eq!(kept(state.as_ref()), 1);
        assert!(charge(&mut later, &low, START + 11 * SECOND, 1).admitted);
        assert_eq!(kept(later.as_ref()), 0);
    }

    #[test]
    fn a_denial_under_a_quota_that_the_key_had_writes_nothing() {
        let (high, low) = (gcra(10, 10), gcra(2, 10));
        let mut state = None;
        assert!(charge(&mut state, &high, START, 10).admitted);
        assert_eq!(charge(&mut state, &low, START, 1).writes.len(), 1, "the first contact");
        for rule in [&high, &low, &high] {
            assert_eq!(charge(&mut state, rule, START + 1, 1).writes, []);
        }
    }

    #[test]
    fn a_cut_locks_out_no_longer_than_the_new_quota_needs() {
        let (high, low) = (gcra(100, 3_600), gcra(2, 10));
        let mut state = None;
        assert!(charge(&mut state, &high, START, 100).admitted);
        let denied = charge(&mut state, &low, START, 1);
        assert_eq!(denied.decisions[0].retry_after_ms, Some(5_000));
        assert!(charge(&mut state, &low, START + 5 * SECOND, 1).admitted);
    }

    #[test]
    fn of_too_many_quotas_those_that_owe_most_stay() {
        let rules: Vec<Rule> = (1..=6).map(|limit| gcra(limit * 10, 3_600)).collect();
        let mut state = None;
        assert!(charge(&mut state, &rules[5], START, 60).admitted);
        for rule in &rules[..5] {
            assert!(!charge(&mut state, rule, START, 1).admitted);
        }
        let state = state.unwrap();
        let mut kept: Vec<u64> = state.others.iter().map(|other| other.quota_id.0[3]).collect();
        kept.sort_unstable();
        assert_eq!((state.quota_id.0[3], kept), (50, vec![30, 40, 60]));
    }

    #[test]
    fn a_quota_that_grants_more_does_not_make_a_log_longer() {
        let (short, high) = (log(5, 3_600), gcra(1_000, 3_600));
        let mut state = None;
        assert!(charge(&mut state, &short, START, 5).admitted);
        for at in 0..500 {
            assert!(charge(&mut state, &high, START + 1 + at * SECOND, 1).admitted, "{at}");
        }
        let words = state.as_ref().unwrap().others[0].words.clone();
        assert_eq!(words.len(), 2 * 64);
        let units: u64 = words.as_chunks::<2>().0.iter().map(|[_, units]| units).sum();
        assert_eq!(units, 505);
        // All of them count until the last has left.
        let end = START + 1 + (499 + 3_600) * SECOND;
        assert!(!charge(&mut state.clone(), &short, end - 1, 5).admitted);
        assert!(charge(&mut state, &short, end, 5).admitted);
    }

    #[test]
    fn a_state_that_is_none_of_its_quota_is_refused_beside_others_too() {
        let (high, low) = (gcra(10, 10), gcra(2, 10));
        let mut state = None;
        assert!(charge(&mut state, &high, START, 1).admitted);
        assert!(charge(&mut state, &low, START, 1).admitted);
        let state = state.unwrap();
        let mut damaged = state.clone();
        damaged.others[0].words = Words::new(&[u64::MAX]);
        let migrated = migrate_state(&high, &damaged, Now::at(START)).map_err(|error| error.code());
        assert_eq!(migrated, Err(Code::CorruptState));
        let write = low.step(&state.words, Now::at(START + 9 * SECOND), Cost::ONE).write.unwrap();
        let next = next_state(&low, write, (&damaged.others, None), Now::at(START));
        assert_eq!(next.map_err(|error| error.code()), Err(Code::CorruptState));
    }
}
