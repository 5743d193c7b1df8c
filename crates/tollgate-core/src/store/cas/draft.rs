//! Admissions over one snapshot, purely: the evidence of each, and what is to be swapped.
//!
//! The admissions of a draft (one, a batch, or a combined round) run one after another over the
//! same cells, so each sees what those before it charged. One that fails leaves the cells untouched
//! and does not concern the others. Nothing here waits: `combine` reads before and swaps after.

use super::bounds::{Bounds, Change, share_full};
use super::layout::{Item, ItemCells, Layout};
use super::record::{Record, conflict};
use super::round::ValueWrite;
use super::stored_value::StoredValue;
use super::versioned::{Snapshot, Swap, Version};
use super::{Evidence, Forget, Owner, ReservedIds, SlotWrite, TimeSource, plan};
use crate::charge::Charge;
use crate::error::{Code, Error, Result};
use crate::state::State;
use crate::store::plan::before_each;
use crate::time::{MICROS_PER_MS, Micros, Now};

/// A cell while admissions run over it.
#[derive(Debug)]
struct Slot {
    version: Option<Version>,
    /// `None` when the value cannot be read.
    cell: Option<StoredValue>,
    /// When the state is fresh again; known once it was written.
    fresh_at: Option<Micros>,
    is_changed: bool,
}

/// The outcome of all items, and the swap that makes it true.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) outcomes: Vec<Result<Evidence>>,
    /// When the request ids that are added expire.
    pub(super) added: Vec<Micros>,
    /// What is to be written, and the version that each value must still have.
    writes: Vec<(ValueWrite, Option<Version>)>,
    forget: Vec<Forget>,
}

impl Draft {
    /// Runs the items in order over what was read.
    ///
    /// # Errors
    /// `corrupt_state` when the backend did not answer for every key.
    pub(super) fn make(
        items: &[Item<'_>],
        layout: &Layout,
        snapshot: Snapshot,
        (bounds, ids): (Bounds, Option<&mut ReservedIds<'_>>),
    ) -> Result<Self> {
        if snapshot.entries.len() != layout.names().len() {
            let message = "a backend returned another number of values than keys";
            return Err(Error::new(Code::CorruptState, message));
        }
        let mut workspace = Workspace::open(snapshot, (bounds, ids));
        let decide = |(index, item)| {
            let own = layout.cells_of(index).ok_or_else(corrupt)?;
            workspace.decide(item, own)
        };
        let outcomes = items.iter().enumerate().map(decide).collect();
        let added = core::mem::take(&mut workspace.added);
        let forget = core::mem::take(&mut workspace.forget);
        Ok(Self { outcomes, added, writes: workspace.writes(), forget })
    }

    /// The evidence of each admission, what is to be written, and what is to be forgotten, for
    /// stores that need no versions.
    pub(super) fn into_parts(self) -> (Vec<Result<Evidence>>, Vec<ValueWrite>, Vec<Forget>) {
        let writes = self.writes.into_iter().map(|(write, _)| write).collect();
        (self.outcomes, writes, self.forget)
    }

    /// Whether the swap writes every one of the keys that were read, and so proves all that was
    /// read to be true.
    pub(super) fn proves(&self, keys: usize) -> bool {
        self.writes.len() == keys
    }

    /// What is to be swapped under the names of the layout; nothing when no admission was charged.
    pub(super) fn swaps<'a>(&'a self, names: &[&'a str]) -> Vec<Swap<'a>> {
        let swap = |(write, expect): &'a (ValueWrite, Option<Version>)| {
            let (key, value) = (names.get(write.place)?, &write.text);
            Some(Swap { key, expect: expect.as_ref(), value, keep_until: write.keep_until })
        };
        self.writes.iter().filter_map(swap).collect()
    }
}

/// The cells of a draft.
struct Workspace<'i, 'r> {
    slots: Vec<Slot>,
    clock: Option<Micros>,
    bounds: Bounds,
    /// The shares of policies and keys, where ids are kept by policy and key.
    ids: Option<&'i mut ReservedIds<'r>>,
    added: Vec<Micros>,
    /// The ids that make room for them.
    forget: Vec<Forget>,
}

impl<'i, 'r> Workspace<'i, 'r> {
    fn open(snapshot: Snapshot, (bounds, ids): (Bounds, Option<&'i mut ReservedIds<'r>>)) -> Self {
        let slots = snapshot.entries.into_iter().map(|entry| {
            let (text, version) = entry.map(|entry| (entry.text, entry.version)).unzip();
            Slot {
                version,
                cell: text.map_or_else(
                    || Some(StoredValue::default()),
                    |text| StoredValue::from_text(&text).ok(),
                ),
                fresh_at: None,
                is_changed: false,
            }
        });
        Self {
            slots: slots.collect(),
            clock: snapshot.clock,
            bounds,
            ids,
            added: Vec::new(),
            forget: Vec::new(),
        }
    }

    fn decide(&mut self, item: &Item<'_>, own: &ItemCells) -> Result<Evidence> {
        let now = instant(item.at, self.clock)?;
        let home = self.cell(own.home)?;
        if let Some(request_id) = &own.request_id
            && let Some(record) = home.record(&request_id.id, now.reading())
        {
            return if record.payload == request_id.payload {
                Ok(record.replay())
            } else {
                Err(conflict())
            };
        }
        let states = own.cells.iter().map(|&cell| Ok(self.cell(cell)?.state.clone()));
        let states: Vec<Option<State>> = states.collect::<Result<_>>()?;
        let charges = item.admission.charges();
        let plan = plan(charges, &own.slots, &states, now)?;
        let before = before_each(&own.slots, states);
        let record = own.request_id.clone().filter(|_| plan.admitted);
        let record = record.map(|request_id| Record::of(request_id, now, charges, &before));
        let mut changes = changes(own, plan.writes, record);
        let forgets = |charge: &Charge<'_>| charge.limit.bounds().forgets_request_ids();
        let forgets = charges.first().is_some_and(forgets);
        let has_room = forgets && self.ids.is_some();
        let room = if has_room { usize::MAX } else { self.bounds.room };
        let bounds = Bounds { room, ..self.bounds };
        for change in &mut changes {
            let cell = self.cell(change.cell)?;
            let algorithm = || algorithm_of(charges, own, change.cell);
            if forgets && bounds.embeds_records {
                change.forget = bounds.check_or_forget(cell, change, now, algorithm)?;
            } else {
                bounds.check(cell, change, now, algorithm)?;
            }
        }
        let expires = changes.iter().find_map(|change| Some(change.record.as_ref()?.expires));
        if let (Some(expires), Some(charge)) = (expires, charges.first()) {
            let may_forget = !item.admission.is_settlement();
            self.reserve(charge, expires, may_forget)?;
        }
        for change in changes {
            self.apply(change, charges, now);
        }
        Ok(Evidence::decided(now, before))
    }

    /// Reserves room for the request id of an admission with this first charge, where ids are kept
    /// by policy and key.
    fn reserve(&mut self, charge: &Charge<'_>, expires: Micros, may_forget: bool) -> Result<()> {
        let Some(ids) = &mut self.ids else { return Ok(()) };
        let (owner, bounds) = (Owner::of(charge.key()), charge.limit.bounds());
        if let Some(excess) = ids.excess(owner, self.bounds.room, bounds) {
            let forgets = bounds.forgets_request_ids();
            let forget = forgets.then(|| ids.forget(excess, charge.key(), bounds)).flatten();
            let forget = forget.ok_or_else(share_full)?;
            self.bounds.room = self.bounds.room.saturating_add(forget.count);
            self.forget.push(forget);
        }
        ids.add((owner, expires), may_forget, bounds);
        Ok(())
    }

    fn cell(&self, index: usize) -> Result<&StoredValue> {
        let slot = self.slots.get(index);
        slot.and_then(|slot| slot.cell.as_ref()).ok_or_else(corrupt)
    }

    /// Changes a cell, and forgets what has expired in it.
    fn apply(&mut self, change: Change, charges: &[Charge<'_>], now: Now) {
        let Some(slot) = self.slots.get_mut(change.cell) else {
            return;
        };
        let Some(cell) = &mut slot.cell else {
            return;
        };
        cell.prune(now.reading());
        for _ in 0..change.forget {
            cell.forget_oldest();
        }
        match change.state {
            Some((state, fresh_at)) => {
                cell.state = Some(state);
                slot.fresh_at = Some(fresh_at);
            }
            // Only a record is added, and the value lives as long as its state did.
            None => slot.fresh_at = slot.fresh_at.or_else(|| fresh_at(charges, cell, now)),
        }
        if let Some(record) = &change.record {
            self.bounds.room = self.bounds.room.saturating_sub(1);
            self.added.push(record.expires);
        }
        cell.records.extend(change.record);
        slot.is_changed = true;
    }

    fn writes(self) -> Vec<(ValueWrite, Option<Version>)> {
        let slack = self.bounds.slack;
        let slots = self.slots.into_iter().enumerate();
        let changed = slots.filter(|(_, slot)| slot.is_changed);
        let pending = changed.filter_map(|(index, slot)| {
            let cell = slot.cell?;
            let idle_from = cell.idle_from(slot.fresh_at.unwrap_or_default());
            let (text, keep_until) = (cell.to_text(), idle_from.saturating_add(slack));
            Some((ValueWrite { place: index, text, keep_until }, slot.version))
        });
        pending.collect()
    }
}

/// What an admission does to its cells, each once.
fn changes(own: &ItemCells, writes: Vec<SlotWrite>, record: Option<Record>) -> Vec<Change> {
    let change = |write: SlotWrite| Change {
        cell: own.cell_of(write.slot),
        state: Some((write.state, write.fresh_at)),
        record: None,
        forget: 0,
    };
    let mut changes: Vec<Change> = writes.into_iter().map(change).collect();
    if record.is_some() {
        let home = changes.iter_mut().find(|change| change.cell == own.home);
        match home {
            Some(home) => home.record = record,
            None => changes.push(Change { cell: own.home, state: None, record, forget: 0 }),
        }
    }
    changes
}

/// The instant an admission is decided at.
pub(super) fn instant(at: TimeSource, clock: Option<Micros>) -> Result<Now> {
    match (at, clock) {
        (TimeSource::Given(reading), _) | (TimeSource::StoreClock, Some(reading)) => {
            Ok(Now::at(reading))
        }
        (TimeSource::StoreClock, None) => Err(no_clock()),
    }
}

pub(super) fn no_clock() -> Error {
    Error::new(Code::Unsupported, "this store has no clock of its own; pass a reading").not_sent()
}

/// When an unchanged state is fresh again, as its own rule reports it.
fn fresh_at(charges: &[Charge<'_>], cell: &StoredValue, now: Now) -> Option<Micros> {
    let (charge, state) = (charges.first()?, cell.state.as_ref()?);
    let peeked = charge.rule().peek(&state.words, now, charge.cost);
    Some(peeked.reset_at_ms.saturating_mul(MICROS_PER_MS))
}

pub(super) fn corrupt() -> Error {
    Error::new(
        Code::CorruptState,
        "a stored value cannot be read; reset the key to start it afresh",
    )
}

/// The algorithm of the last charge on a cell: the one whose state is written.
fn algorithm_of<'a>(charges: &[Charge<'a>], own: &ItemCells, cell: usize) -> &'a str {
    let mut placed = charges.iter().zip(&own.slots);
    let charge = placed.rfind(|(_, slot)| own.cell_of(**slot) == cell);
    charge.map_or("unknown", |(charge, _)| charge.rule().name())
}
