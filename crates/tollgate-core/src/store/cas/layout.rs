//! Which keys a number of admissions touch, and where each finds its own.
//!
//! Two charges on one key share one cell, within an admission and across them: a swap never writes
//! a key twice. The record of a request id lives under a name of its own next to the first key, or,
//! where a backend cannot swap two keys at once, in the value of that key.

use std::collections::HashMap;

use super::record::{RequestIdKey, name, request_id_key};
use super::{TimeSource, slots_of};
use crate::charge::Admission;

/// One admission at its own instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub(super) admission: Admission<'a>,
    pub(super) at: TimeSource,
}

/// Which names the items of a draft use, and where.
#[derive(Debug)]
pub(super) struct Layout {
    names: Vec<String>,
    /// Which of the names are those of records.
    is_record: Vec<bool>,
    items_cells: Vec<ItemCells>,
}

/// Where one item finds its cells.
#[derive(Debug)]
pub(super) struct ItemCells {
    /// The item's own slot of each charge.
    pub(super) slots: Vec<usize>,
    /// The cell of each of those slots.
    pub(super) cells: Vec<usize>,
    /// The cell of the record.
    pub(super) home: usize,
    pub(super) request_id: Option<RequestIdKey>,
}

impl Layout {
    pub(super) fn of(items: &[Item<'_>], embeds_records: bool) -> Self {
        let mut names = Vec::new();
        let mut is_record = Vec::new();
        let mut index = HashMap::new();
        let mut cell_of = |name: String, is_a_record: bool| {
            *index.entry(name).or_insert_with_key(|name: &String| {
                names.push(name.clone());
                is_record.push(is_a_record);
                names.len() - 1
            })
        };
        let items_cells = items.iter().map(|item| {
            let (slots, keys) = slots_of(item.admission.charges());
            let cells: Vec<usize> = keys.iter().map(|key| cell_of(key.to_text(), false)).collect();
            let request_id = request_id_key(&item.admission);
            let home = match (&request_id, keys.first()) {
                (Some(request_id), Some(key)) if !embeds_records => {
                    cell_of(name(*key, &request_id.id), true)
                }
                _ => cells.first().copied().unwrap_or_default(),
            };
            ItemCells { slots, cells, home, request_id }
        });
        let items_cells = items_cells.collect();
        Self { names, is_record, items_cells }
    }

    /// All names, each once, and whether it is that of a record.
    pub(super) fn names_and_kinds(&self) -> impl ExactSizeIterator<Item = (&str, bool)> {
        self.names.iter().map(String::as_str).zip(self.is_record.iter().copied())
    }

    /// All names, each once.
    pub(super) fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// The names of the keys that are charged. A record needs no queue: that of its key guards it.
    pub(super) fn keys(&self) -> Vec<&str> {
        let named = self.names.iter().zip(&self.is_record);
        let keys = named.filter(|(_, is_record)| !**is_record);
        keys.map(|(name, _)| name.as_str()).collect()
    }

    /// The cells of an item. Those past the end are followers, which share that of their leader.
    pub(super) fn cells_of(&self, item: usize) -> Option<&ItemCells> {
        self.items_cells.get(item).or(self.items_cells.first())
    }
}

impl ItemCells {
    /// The cell of one of the item's own slots.
    pub(super) fn cell_of(&self, slot: usize) -> usize {
        // No layout has a cell of that number, so a wrong slot finds nothing.
        self.cells.get(slot).copied().unwrap_or(usize::MAX)
    }
}
