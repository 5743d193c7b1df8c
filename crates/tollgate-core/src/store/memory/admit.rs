//! The general path: any charges on any keys, under the locks of everything they touch.
//!
//! Shards are locked in ascending order, then the lines of the keys that are there. A check on a
//! single line waits for nothing while it holds it, so no circle of waiting can form.

use std::sync::MutexGuard;

use super::Memory;
use super::fill::Fill;
use super::fingerprint::Id;
use super::line::{Content, Held, SHORT};
use super::shard::Shard;
use super::table::Place;
use crate::algorithm::{Debt, Step, Write, migrate_state};
use crate::charge::Charge;
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::rule::Rule;
use crate::state::{State, Words};
use crate::store::Evidence;
use crate::store::plan::{Plan, before_each, plan, slots_of};
use crate::time::{Micros, Now};

/// How many keys one admission may touch: a window must keep lines for other keys.
const KEYS_MAX: usize = 16;
/// The tag of a line that never had a state; no quota has it.
const NO_QUOTA: u64 = 0;

/// One key of an admission.
struct Slot {
    id: Id,
    place: Place,
}

/// A key under the locks of its shard and of its line.
struct LockedKey<'a> {
    slot: Slot,
    shard: MutexGuard<'a, Shard>,
    /// The line that holds the key, if there is one.
    held: Option<Held<'a>>,
    state: Option<State>,
    /// The instant to decide at.
    now: Now,
}

/// The shards of an admission, locked, in ascending order.
struct Shards<'a>(Vec<(usize, MutexGuard<'a, Shard>)>);

impl Shards<'_> {
    fn get(&mut self, shard: usize) -> Option<&mut Shard> {
        self.0.iter_mut().find(|(index, _)| *index == shard).map(|(_, guard)| &mut **guard)
    }
}

impl Memory {
    /// Runs an admission and writes what it decided, unless `agree` refuses that.
    pub(super) fn admit_locked(
        &self,
        charges: &[Charge<'_>],
        at: Micros,
        agree: impl FnOnce(&Evidence, &Plan) -> Result<()>,
    ) -> Result<(Evidence, Plan)> {
        let (slots_of_charges, keys) = slots_of(charges);
        if keys.is_empty() || keys.len() > KEYS_MAX {
            let message =
                format!("{} keys in one admission; accepted: 1 to {KEYS_MAX}", keys.len());
            return Err(Error::invalid("charges", message));
        }
        let slots: Vec<Slot> = keys.iter().map(|key| self.slot(*key)).collect();
        let mut shards = self.lock_shards(&slots);
        for slot in &slots {
            if let Some(shard) = shards.get(slot.place.shard) {
                self.prepare(shard, slot, at)?;
            }
        }
        // The order of the lines does not matter: a holder of more than one line also holds the
        // mutexes of their shards.
        let mut held: Vec<Option<Held<'_>>> = slots.iter().map(|slot| self.hold(slot)).collect();

        let first_rule = |slot: usize| {
            let mut charges = charges.iter().zip(&slots_of_charges);
            charges.find(|(_, at)| **at == slot).map(|(charge, _)| charge.rule())
        };
        let remembered: Vec<Option<State>> = (0..slots.len())
            .map(|slot| {
                let (held, rule) = (held.get(slot)?.as_ref()?, first_rule(slot)?);
                self.state_in(held, rule, shards.get(slots.get(slot)?.place.shard)?, at)
            })
            .collect();
        // Not before what was forgotten, for keys that are not remembered.
        let forgotten = slots.iter().zip(&remembered).filter(|(_, state)| state.is_none());
        let now = forgotten.fold(Now::at(at), |now, (slot, _)| {
            now.not_before(shards.get(slot.place.shard).map_or(0, |shard| shard.floor()))
        });
        let before: Vec<Option<State>> = remembered
            .into_iter()
            .enumerate()
            .map(|(slot, state)| {
                let is_new = held.get(slot).is_some_and(Option::is_none);
                state.or_else(|| {
                    let place = slots.get(slot).filter(|_| is_new)?.place;
                    inherited(shards.get(place.shard)?, place, first_rule(slot)?, now)
                })
            })
            .collect();

        let planned = plan(charges, &slots_of_charges, &before, now)?;
        let outcome = Evidence::decided(now, before_each(&slots_of_charges, before));
        agree(&outcome, &planned)?;
        for write in &planned.writes {
            let rule = charges
                .iter()
                .map(Charge::rule)
                .find(|rule| rule.quota_id() == write.state.quota_id);
            if let (Some(rule), Some(slot)) = (rule, slots.get(write.slot)) {
                let line = held.get_mut(write.slot).and_then(Option::take);
                let next = (&write.state.words, write.fresh_at);
                if let Some(shard) = shards.get(slot.place.shard) {
                    self.write(shard, (slot, line), (rule, next), now);
                }
            }
        }
        Ok((outcome, planned))
    }

    /// Decides on a key that has no line, and gives it one if it is charged. `None` if it has one.
    pub(super) fn charge_newcomer(
        &self,
        charge: &Charge<'_>,
        id: Id,
        at: Micros,
    ) -> Result<Option<Decision>> {
        let (rule, table) = (charge.rule(), &self.0.table);
        let place = table.place(id);
        let Some(mut shard) = table.lock(place.shard) else {
            return Ok(None);
        };
        if table.find(id, place).is_some() {
            return Ok(None);
        }
        shard.prepare(table, place, Now::at(at).reading())?;
        let now = Now::at(at).not_before(shard.floor());
        let inherited = shard.inherited(place, rule, now.effective());
        let words = inherited.as_ref().map_or(&[][..], |write| &write.words);
        let Step { decision, write } = rule.step(words, now, charge.cost);
        if let Some(Write { words, fresh_at }) = write {
            self.0.quota_ids.note(rule);
            let content = content_of(rule, (&words, fresh_at), &mut shard, now);
            shard.insert(table, place, now.effective(), (id, rule.quota_tag(), &content));
        }
        Ok(Some(decision))
    }

    /// Makes room for a key that has no line. No line of the shard may be held.
    fn prepare(&self, shard: &mut Shard, slot: &Slot, at: Micros) -> Result<()> {
        match self.0.table.find(slot.id, slot.place) {
            Some(_) => Ok(()),
            None => shard.prepare(&self.0.table, slot.place, Now::at(at).reading()),
        }
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
        let (id, table) = (self.0.secrets.id_of(key), &self.0.table);
        let place = table.place(id);
        let Some(mut shard) = table.lock(place.shard) else {
            return;
        };
        // As long as the neighbourhood owes, the line is not to be given away as expired.
        let fresh_at = shard.indebted_until(place);
        let nothing = Content::Short { fresh_at, words: Words::new(&[]), fill: Fill::LITTLE };
        let line = table.find(id, place).and_then(|line| table.line(line));
        if let Some(held) = line.map(Held::lock) {
            if let Some(content) = held.content() {
                shard.release(&content);
            }
            let tag = held.tag();
            held.put(id, tag, &nothing);
        } else if fresh_at > shard.floor() {
            let at = shard.floor();
            // A key that inherits a debt is in a shard that has lines.
            shard.insert(table, place, at, (id, NO_QUOTA, &nothing));
        }
    }

    /// Makes a key owe what it does and `more`, but at least `at_least` and at most its ceiling,
    /// and for no shorter than until the instant that goes with it.
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
            Ok(carried) => carried,
            // What it owed is unknown: the most, as for every state that cannot be read here.
            Err(_) => Some(rule.indebted(full_debt(rule, now.effective()))),
        });
        let words = match (&carried, &state) {
            (Some(carried), _) => &carried.words[..],
            (None, Some(state)) => &state.words[..],
            (None, None) => &[],
        };
        let owed = rule.debt(words, now);
        let units = owed.units.saturating_add(more).max(at_least).min(rule.ceiling());
        // Units are whole, instants are not: what is owed as much must also last as long.
        let lasts = held.as_ref().and_then(Held::content).map_or(0, |content| content.fresh_at());
        let too_short = at_least > 0 && (at_least >= owed.units || lasts < until);
        if units > owed.units || too_short || carried.is_some() {
            let Write { words, fresh_at } = rule.indebted(Debt { units, seen: owed.seen });
            if held.is_none() && self.prepare(&mut shard, &slot, at).is_err() {
                return;
            }
            self.write(&mut shard, (&slot, held), (rule, (&words, fresh_at)), now);
        }
    }

    fn slot(&self, key: Key<'_>) -> Slot {
        let id = self.0.secrets.id_of(key);
        Slot { id, place: self.0.table.place(id) }
    }

    /// Takes the line of a key, if it has one. Its shard must be locked.
    fn hold(&self, slot: &Slot) -> Option<Held<'_>> {
        let line = self.0.table.find(slot.id, slot.place)?;
        self.0.table.line(line).map(Held::lock)
    }

    fn lock_key(&self, charge: &Charge<'_>, at: Micros) -> Option<LockedKey<'_>> {
        let (slot, rule) = (self.slot(charge.key()), charge.rule());
        let shard = self.0.table.lock(slot.place.shard)?;
        let held = self.hold(&slot);
        let mut state = held.as_ref().and_then(|held| self.state_in(held, rule, &shard, at));
        let floor = if state.is_none() { shard.floor() } else { 0 };
        let now = Now::at(at).not_before(floor);
        if held.is_none() {
            state = inherited(&shard, slot.place, rule, now);
        }
        Some(LockedKey { slot, shard, held, state, now })
    }

    fn lock_shards(&self, slots: &[Slot]) -> Shards<'_> {
        let mut wanted: Vec<usize> = slots.iter().map(|slot| slot.place.shard).collect();
        wanted.sort_unstable();
        wanted.dedup();
        Shards(
            wanted
                .into_iter()
                .filter_map(|shard| Some((shard, self.0.table.lock(shard)?)))
                .collect(),
        )
    }

    /// The state in a line; the largest debt if its quota is not known any more.
    fn state_in(&self, held: &Held<'_>, rule: &Rule, shard: &Shard, at: Micros) -> Option<State> {
        let is_own = held.tag() == rule.quota_tag();
        let quota_id = is_own.then(|| rule.quota_id()).or_else(|| self.0.quota_ids.of(held.tag()));
        let content = held.content()?;
        let Some(quota_id) = quota_id else {
            let is_empty = matches!(&content, Content::Short { words, .. } if words.is_empty());
            if is_empty || content.fresh_at() <= at {
                return None;
            }
            // When it ends says nothing about units of another quota.
            let write = rule.indebted(full_debt(rule, at));
            return Some(State { quota_id: rule.quota_id(), words: write.words });
        };
        let words = match content {
            Content::PackedSchedule { word, scale, .. } => {
                Words::new(&[word / scale.max(1), word % scale.max(1)])
            }
            Content::Short { words, .. } => words,
            Content::Long { index, .. } => Words::new(shard.spilled(index)),
        };
        (!words.is_empty()).then_some(State { quota_id, words })
    }

    /// Writes the next state of a key into its line, or into a new one.
    fn write(
        &self,
        shard: &mut Shard,
        (slot, held): (&Slot, Option<Held<'_>>),
        (rule, next): (&Rule, (&Words, Micros)),
        now: Now,
    ) {
        self.0.quota_ids.note(rule);
        let content = content_of(rule, next, shard, now);
        // Only now: a user's algorithm may panic above, and then the line stays as it is.
        if let Some(replaced) = held.as_ref().and_then(Held::content) {
            shard.release(&replaced);
        }
        match held {
            Some(held) => held.put(slot.id, rule.quota_tag(), &content),
            None => shard.insert(
                &self.0.table,
                slot.place,
                now.effective(),
                (slot.id, rule.quota_tag(), &content),
            ),
        }
    }
}

/// The debt that a key without a line inherits, as a state. A key that has a line is no newcomer:
/// it was reset, or it expired there.
fn inherited(shard: &Shard, place: Place, rule: &Rule, now: Now) -> Option<State> {
    let write = shard.inherited(place, rule, now.effective())?;
    Some(State { quota_id: rule.quota_id(), words: write.words })
}

/// As much as a quota can be owed.
fn full_debt(rule: &Rule, seen: Micros) -> Debt {
    Debt { units: rule.ceiling(), seen }
}

/// How a state is kept in a line.
fn content_of(
    rule: &Rule,
    (words, fresh_at): (&Words, Micros),
    shard: &mut Shard,
    now: Now,
) -> Content {
    if let Some(packed) = rule.packed_schedule() {
        return Content::PackedSchedule {
            word: packed.pack(words),
            scale: packed.scale(),
            throttled_above: packed.throttled_above(),
        };
    }
    let fill = Fill::of(rule.debt(words, now).units, rule.ceiling());
    if words.len() <= SHORT {
        Content::Short { fresh_at, words: words.clone(), fill }
    } else {
        Content::Long { fresh_at, index: shard.spill(words), fill }
    }
}
