//! One key at a time: newcomers, peeks, resets, and debts that another store reports.

use std::sync::MutexGuard;

use super::admit::Slot;
use super::contents::full_debt;
use super::fill::Fill;
use super::fingerprint::Id;
use super::line::{Content, Held};
use super::shard::Shard;
use super::{Memory, namespace};
use crate::algorithm::{Debt, Step, migrate_state, next_state};
use crate::charge::Charge;
use crate::decision::Decision;
use crate::error::Result;
use crate::key::Key;
use crate::state::{State, Words};
use crate::time::{Micros, Now};

/// The tag of a line that never had a state; no quota has it.
const NO_QUOTA: u64 = 0;

/// A key under the locks of its shard and of its line.
struct LockedKey<'a> {
    /// The line that holds the key, if there is one; released before the shard.
    held: Option<Held<'a>>,
    shard: MutexGuard<'a, Shard>,
    slot: Slot<'a>,
    state: Option<State>,
    /// The instant to decide at.
    now: Now,
}

impl Memory {
    /// Decides on a key that has no line, and gives it one if it is charged. `None` if it has one.
    pub(super) fn charge_newcomer(
        &self,
        charge: &Charge<'_>,
        id: Id,
        at: Micros,
    ) -> Result<Option<Decision>> {
        let (rule, states) = (charge.rule(), self.0.states.of(charge.limit));
        let table = &states.table;
        let hash = table.hash_of(id);
        let Some(mut shard) = table.lock(hash.shard) else {
            return Ok(None);
        };
        if table.find(id, hash).is_some() {
            return Ok(None);
        }
        shard.prepare(table, hash, Now::at(at).reading())?;
        let now = Now::at(at).not_before(shard.floor());
        let inherited = shard.inherited(hash, rule, now.effective());
        let words = inherited.as_ref().map_or(&[][..], |write| &write.words);
        let Step { decision, write } = rule.step(words, now, charge.cost);
        if let Some(write) = write {
            let fresh_at = write.fresh_at;
            let next = (&State::of(rule, write), fresh_at);
            let (tag, content) = states.content_of(rule, next, (&mut shard, hash.shard), now)?;
            shard.insert(table, hash, now.effective(), (id, tag, &content));
        }
        Ok(Some(decision))
    }

    /// Reads keys without changing them.
    pub(super) fn load_locked(
        &self,
        charges: &[Charge<'_>],
        at: Micros,
    ) -> (Now, Vec<Option<State>>) {
        let load = |charge: &Charge<'_>| {
            let key = self.lock_key(charge, at);
            key.map_or((Now::at(at), None), |key| (key.now, key.state))
        };
        let loaded: Vec<(Now, Option<State>)> = charges.iter().map(load).collect();
        let floor = loaded.iter().map(|(now, _)| now.effective()).max().unwrap_or(0);
        (Now::at(at).not_before(floor), loaded.into_iter().map(|(_, state)| state).collect())
    }

    /// Forgets a key: it keeps or gets a line without a state, so that it inherits no debt either.
    pub(crate) fn reset_locked(&self, key: Key<'_>) {
        let number = namespace::known(key.prefix.as_str(), key.policy.as_str());
        let Some(states) = number.and_then(|number| self.0.states.known(number)) else {
            return;
        };
        let (id, table) = (self.0.secrets.id_of(key), &states.table);
        let hash = table.hash_of(id);
        let Some(mut shard) = table.lock(hash.shard) else {
            return;
        };
        // As long as the neighbourhood owes, the line is not to be given away as expired.
        let fresh_at = shard.indebted_until(hash);
        let nothing = Content::Short { fresh_at, words: Words::new(&[]), fill: Fill::LITTLE };
        let line = table.find(id, hash).and_then(|line| table.line(line));
        if let Some(held) = line.map(Held::lock) {
            if let Some(content) = held.content() {
                shard.release(table, &content);
            }
            let tag = held.tag();
            held.put(id, tag, &nothing);
        } else if fresh_at > shard.floor() {
            let at = shard.floor();
            // A shard with a debt has lines.
            shard.insert(table, hash, at, (id, NO_QUOTA, &nothing));
        }
    }

    /// Makes a key owe what it does and `more`, but at least `at_least`, and for no shorter than
    /// until the instant that goes with it. A key that owes its ceiling owes no more after it.
    pub(crate) fn owe_at_least(
        &self,
        charge: &Charge<'_>,
        more: u64,
        (at_least, until): (u64, Micros),
        at: Micros,
    ) {
        let rule = charge.rule();
        let Some(LockedKey { slot, mut shard, held, state, now }) = self.lock_key(charge, at)
        else {
            return;
        };
        let carried = state.as_ref().and_then(|state| match migrate_state(rule, state, now) {
            Ok(carried) => carried.map(|carried| carried.state),
            // What it owed is unknown: the most, as for every state that cannot be read here.
            Err(_) => Some(State::of(rule, rule.indebted(full_debt(rule, now.effective())))),
        });
        let known = carried.as_ref().or(state.as_ref());
        let words = known.map_or(&[][..], |state| &state.words);
        let owed = rule.debt(words, now);
        let most = rule.ceiling().max(owed.units);
        let units = owed.units.saturating_add(more).max(at_least).min(most);
        // Units are whole, instants are not: what is owed as much must also last as long.
        let lasts = held.as_ref().and_then(Held::content).map_or(0, |content| content.fresh_at());
        let too_short = at_least > 0 && (at_least >= owed.units || lasts < until);
        if units > owed.units || too_short || carried.is_some() {
            let write = rule.indebted(Debt { units, seen: owed.seen });
            let others = known.map_or(&[][..], |state| &state.others);
            let Ok((state, fresh_at)) = next_state(rule, write, (others, None), now) else {
                return;
            };
            // Without memory the debt is not noted: this store is a shadow of another one.
            if held.is_none() && slot.prepare(&mut shard, at).is_err() {
                return;
            }
            let (next, number) = ((&state, fresh_at), slot.hash.shard);
            let content = slot.states.content_of(rule, next, (&mut shard, number), now);
            if let Ok((tag, content)) = content {
                slot.put((&mut shard, held), tag, &content, now);
            }
        }
    }

    fn lock_key(&self, charge: &Charge<'_>, at: Micros) -> Option<LockedKey<'_>> {
        let (slot, rule) = (self.slot(charge), charge.rule());
        let shard = slot.states.table.lock(slot.hash.shard)?;
        let held = slot.hold();
        let mut state = held.as_ref().and_then(|held| slot.states.state_in(held, rule, &shard, at));
        let floor = if state.is_none() { shard.floor() } else { 0 };
        let now = Now::at(at).not_before(floor);
        if held.is_none() {
            state = slot.inherited(&shard, rule, now);
        }
        Some(LockedKey { held, shard, slot, state, now })
    }
}
