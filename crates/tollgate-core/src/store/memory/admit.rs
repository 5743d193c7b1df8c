//! The general path: any charges on any keys, under the locks of everything they touch.
//!
//! Shards are locked in ascending order of policy and shard, then the lines of the keys that are
//! there. A check on a single line waits for nothing while it holds it, so no circle of waiting can
//! form.

use std::sync::MutexGuard;

use super::Memory;
use super::fingerprint::Id;
use super::line::{Content, Held};
use super::policies::PolicyStates;
use super::shard::Shard;
use super::table::KeyHash;
use crate::charge::Charge;
use crate::error::{Error, Result};
use crate::rule::Rule;
use crate::state::State;
use crate::store::Evidence;
use crate::store::plan::{Plan, before_each, plan, slots_of};
use crate::time::{Micros, Now};

/// How many keys one admission may touch: a window must keep lines for other keys.
const KEYS_MAX: usize = 16;

/// One key of an admission.
pub(super) struct Slot<'a> {
    pub(super) states: &'a PolicyStates,
    pub(super) id: Id,
    pub(super) hash: KeyHash,
}

/// The keys of an admission under the locks of their shards and lines.
struct LockedKeys<'a> {
    /// The lines of the keys that have one; released before the shards.
    held: Vec<Option<Held<'a>>>,
    shards: Shards<'a>,
    slots: Vec<Slot<'a>>,
}

/// Locked shards by the numbers of policy and shard, in ascending order.
type Shards<'a> = Vec<((usize, usize), MutexGuard<'a, Shard>)>;

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
        let first_charge = |slot: usize| {
            let mut charges = charges.iter().zip(&slots_of_charges);
            charges.find(|(_, at)| **at == slot).map(|(charge, _)| charge)
        };
        let firsts: Vec<&Charge<'_>> = (0..keys.len()).filter_map(first_charge).collect();
        let mut locked = LockedKeys::lock(firsts.iter().map(|first| self.slot(first)), at)?;
        let rules: Vec<&Rule> = firsts.iter().map(|first| first.rule()).collect();
        let (now, before) = locked.load(&rules, at);

        let planned = plan(charges, &slots_of_charges, &before, now)?;
        let outcome = Evidence::decided(now, before_each(&slots_of_charges, before));
        agree(&outcome, &planned)?;
        locked.write(charges, &planned, now)?;
        Ok((outcome, planned))
    }

    /// Where the key of a charge may be.
    pub(super) fn slot(&self, charge: &Charge<'_>) -> Slot<'_> {
        let (id, states) = (self.id(charge), self.0.states.of(charge.limit));
        Slot { states, id, hash: states.table.hash_of(id) }
    }
}

impl<'a> Slot<'a> {
    /// Makes room for the key, if it has no line. No line of the shard may be held.
    pub(super) fn prepare(&self, shard: &mut Shard, at: Micros) -> Result<()> {
        let table = &self.states.table;
        match table.find(self.id, self.hash) {
            Some(_) => Ok(()),
            None => shard.prepare(table, self.hash, Now::at(at).reading()),
        }
    }

    /// Takes the line of the key, if it has one. Its shard must be locked.
    pub(super) fn hold(&self) -> Option<Held<'a>> {
        let table = &self.states.table;
        table.line(table.find(self.id, self.hash)?).map(Held::lock)
    }

    /// The debt that a key without a line inherits, as a state. A key that has a line is no
    /// newcomer: it was reset, or it expired there.
    pub(super) fn inherited(&self, shard: &Shard, rule: &Rule, now: Now) -> Option<State> {
        let write = shard.inherited(self.hash, rule, now.effective())?;
        Some(State::of(rule, write))
    }

    /// Writes a content into the line of the key, or into a new one.
    pub(super) fn put(
        &self,
        (shard, held): (&mut Shard, Option<Held<'_>>),
        tag: u64,
        content: &Content,
        now: Now,
    ) {
        let table = &self.states.table;
        if let Some(replaced) = held.as_ref().and_then(Held::content) {
            shard.release(table, &replaced);
        }
        match held {
            Some(held) => held.put(self.id, tag, content),
            None => shard.insert(table, self.hash, now.effective(), (self.id, tag, content)),
        }
    }
}

impl<'a> LockedKeys<'a> {
    fn lock(slots: impl Iterator<Item = Slot<'a>>, at: Micros) -> Result<Self> {
        let slots: Vec<Slot<'a>> = slots.collect();
        let mut wanted: Vec<(usize, usize, &PolicyStates)> =
            slots.iter().map(|slot| (slot.states.number, slot.hash.shard, slot.states)).collect();
        wanted.sort_unstable_by_key(|(number, shard, _)| (*number, *shard));
        wanted.dedup_by_key(|(number, shard, _)| (*number, *shard));
        let lock = |(number, shard, states): (usize, usize, &'a PolicyStates)| {
            Some(((number, shard), states.table.lock(shard)?))
        };
        let shards = wanted.into_iter().filter_map(lock).collect();
        let mut locked = Self { held: Vec::new(), shards, slots };
        for slot in &locked.slots {
            if let Some(shard) = shard_of(&mut locked.shards, slot) {
                slot.prepare(shard, at)?;
            }
        }
        // The order of the lines does not matter: a holder of more than one line also holds the
        // mutexes of their shards.
        locked.held = locked.slots.iter().map(Slot::hold).collect();
        Ok(locked)
    }

    /// The states, and the instant to decide at: for keys that are not kept, not before what
    /// was forgotten.
    fn load(&mut self, rules: &[&Rule], at: Micros) -> (Now, Vec<Option<State>>) {
        let mut now = Now::at(at);
        let mut states = Vec::with_capacity(self.slots.len());
        for ((slot, held), rule) in self.slots.iter().zip(&self.held).zip(rules) {
            let shard = shard_of(&mut self.shards, slot);
            let state = match (held, &shard) {
                (Some(held), Some(shard)) => slot.states.state_in(held, rule, shard, at),
                _ => None,
            };
            if let (None, Some(shard)) = (&state, &shard) {
                now = now.not_before(shard.floor());
            }
            states.push(state);
        }
        for (((slot, held), rule), state) in
            self.slots.iter().zip(&self.held).zip(rules).zip(&mut states)
        {
            if held.is_none()
                && let Some(shard) = shard_of(&mut self.shards, slot)
            {
                *state = slot.inherited(shard, rule, now);
            }
        }
        (now, states)
    }

    /// Writes what was planned: all of it or, without memory for it, nothing.
    fn write(&mut self, charges: &[Charge<'_>], planned: &Plan, now: Now) -> Result<()> {
        let mut contents: Vec<(usize, u64, Content)> = Vec::with_capacity(planned.writes.len());
        for write in &planned.writes {
            let mut rules = charges.iter().map(Charge::rule);
            let rule = rules.find(|rule| rule.quota_id() == write.state.quota_id);
            let (Some(rule), Some(slot)) = (rule, self.slots.get(write.slot)) else { continue };
            let Some(shard) = shard_of(&mut self.shards, slot) else { continue };
            let next = (&write.state, write.fresh_at);
            match slot.states.content_of(rule, next, (shard, slot.hash.shard), now) {
                Ok((tag, content)) => contents.push((write.slot, tag, content)),
                Err(error) => {
                    for (slot, _, content) in &contents {
                        let Some(slot) = self.slots.get(*slot) else { continue };
                        if let Some(shard) = shard_of(&mut self.shards, slot) {
                            shard.release(&slot.states.table, content);
                        }
                    }
                    return Err(error);
                }
            }
        }
        for (slot, tag, content) in &contents {
            let held = self.held.get_mut(*slot).and_then(Option::take);
            let Some(slot) = self.slots.get(*slot) else { continue };
            if let Some(shard) = shard_of(&mut self.shards, slot) {
                slot.put((shard, held), *tag, content, now);
            }
        }
        Ok(())
    }
}

fn shard_of<'s>(shards: &'s mut Shards<'_>, slot: &Slot<'_>) -> Option<&'s mut Shard> {
    let wanted = (slot.states.number, slot.hash.shard);
    shards.iter_mut().find(|(index, _)| *index == wanted).map(|(_, guard)| &mut **guard)
}
