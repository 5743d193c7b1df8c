//! Carrying what was spent over to a changed quota.
//!
//! A window under another limit keeps its counts: they mean the same. For every other change, the
//! units still owed under the old quota, rounded up to a whole unit and at most the new
//! ceiling, are owed under the new one: no free refill, and no wait longer than the new quota
//! needs. The carried state is written at the first contact, whatever the verdict, so that the
//! waiting time it implies counts from there.

use super::Write;
use crate::error::{Code, Error, Result};
use crate::rule::Rule;
use crate::state::State;
use crate::time::{Micros, Now};

/// What a key owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debt {
    /// Units still counted, rounded up.
    pub units: u64,
    /// The instant at which they are owed: the later of now and what the state has seen.
    pub seen: Micros,
}

/// Carries a state of another quota over to `rule`. `None` when it is of this quota already.
///
/// # Errors
/// `corrupt_state` when the state is not one of its quota, or is of an unknown algorithm.
pub fn migrate_state(rule: &Rule, state: &State, now: Now) -> Result<Option<Write>> {
    if state.quota_id.family() == rule.quota_id().family() {
        return if rule.accepts(&state.words) { Ok(None) } else { Err(corrupt()) };
    }
    let known = rule.recall(state.quota_id);
    let old = known.filter(|old| old.accepts(&state.words)).ok_or_else(corrupt)?;
    let owed = old.debt(&state.words, now);
    let units = owed.units.min(rule.ceiling());
    Ok(Some(rule.indebted(Debt { units, seen: owed.seen })))
}

fn corrupt() -> Error {
    Error::new(
        Code::CorruptState,
        "a stored state does not fit its algorithm; reset the key to start it afresh",
    )
}
