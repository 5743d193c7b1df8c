//! What a value may hold: the bytes a backend can keep, and the request ids a key may keep.
//!
//! Checked before a cell is changed, so that an admission which does not fit is refused alone and
//! the others of its round go on.

use super::record::Record;
use super::stored_value::StoredValue;
use crate::charge::Admission;
use crate::error::{Code, Error, Result};
use crate::state::State;
use crate::time::{Micros, Now};

/// Twenty digits and a comma: no number of a state is longer.
const NUMBER_BYTES: usize = 21;

/// The bounds an adapter keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Whether a request id is kept in the value of its key, for want of swaps over several keys.
    pub(super) embeds_records: bool,
    pub(super) max_records: usize,
    /// 0 for none.
    pub(super) max_bytes: usize,
    pub(super) slack: Micros,
    /// How many more request ids the store may keep.
    pub(super) room: usize,
}

/// What is about to happen to a cell.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) cell: usize,
    /// The next state, and when it is fresh again; `None` when the state stays.
    pub(super) state: Option<(State, Micros)>,
    pub(super) record: Option<Record>,
    /// How many of the oldest request ids in the cell make room for it.
    pub(super) forget: usize,
}

impl Bounds {
    /// How many of the oldest request ids in a cell are to be forgotten for a change to fit.
    ///
    /// # Errors
    /// As [`Bounds::check`].
    pub(super) fn check_or_forget<'n>(
        &self,
        cell: &StoredValue,
        change: &Change,
        now: Now,
        algorithm: impl Fn() -> &'n str,
    ) -> Result<usize> {
        let refused = match self.check(cell, change, now, &algorithm) {
            Ok(()) => return Ok(0),
            Err(error) if error.code() != Code::QueueFull || change.record.is_none() => {
                return Err(error);
            }
            Err(error) => error,
        };
        let mut cell = cell.clone();
        cell.prune(now.reading());
        let mut count = 0;
        while cell.forget_oldest() {
            count += 1;
            if self.check(&cell, change, now, &algorithm).is_ok() {
                return Ok(count);
            }
        }
        Err(refused)
    }

    /// # Errors
    /// `unsupported` when the state or a single record is too long for the backend; `queue_full`
    /// when one more record is too much.
    pub(super) fn check<'n>(
        &self,
        cell: &StoredValue,
        change: &Change,
        now: Now,
        algorithm: impl FnOnce() -> &'n str,
    ) -> Result<()> {
        let is_live = |record: &&Record| record.expires > now.reading();
        let live = || cell.records.iter().filter(is_live);
        if change.record.is_some() && live().count() >= self.max_records {
            return Err(full());
        }
        if change.record.is_some() && self.room == 0 {
            return Err(store_full());
        }
        if self.max_bytes == 0 {
            return Ok(());
        }
        let kept: usize = live().map(line_bytes).sum();
        let next = change.state.as_ref().map(|(state, _)| state);
        let state = next.or(cell.state.as_ref());
        if !self.has_room(state, kept) {
            return Err(self.too_long(algorithm()));
        }
        let added = change.record.as_ref().map_or(0, line_bytes);
        match (self.has_room(state, kept + added), kept) {
            (true, _) => Ok(()),
            // Not even the first record fits: no expiry will ever make room.
            (false, 0) => Err(self.record_too_long()),
            (false, _) => Err(full()),
        }
    }

    fn has_room(&self, state: Option<&State>, lines: usize) -> bool {
        let numbers = state.map_or(0, State::numbers) + 1;
        // Most states need no closer check than their number of words.
        numbers * NUMBER_BYTES + lines <= self.max_bytes
            || state.map_or(2, |state| state.to_text().len()) + lines <= self.max_bytes
    }

    fn too_long(&self, algorithm: &str) -> Error {
        let max = self.max_bytes;
        let message = format!(
            "the state of {algorithm} is longer than the {max} bytes this store can keep; \
             choose an algorithm with a smaller state"
        );
        Error::new(Code::Unsupported, message).with_field("algorithm")
    }

    fn record_too_long(&self) -> Error {
        let max = self.max_bytes;
        let message = format!("the record needs more than the {max} bytes this store can keep");
        Error::new(Code::Unsupported, message).with_field("request_id")
    }
}

/// Refuses a request id under a limit that bounds how many there are, where `bounded_ids` of the
/// [capability](crate::store::Capability::bounded_ids) of a store says that it cannot.
///
/// # Errors
/// `unsupported`.
pub fn check_bound(admission: &Admission<'_>, bounded_ids: bool) -> Result<()> {
    if bounded_ids || admission.request_id.is_none() {
        return Ok(());
    }
    let mut bounds = admission.charges().iter().map(|charge| charge.limit.bounds());
    if bounds.all(|bounds| bounds.max_request_ids_if_set().is_none()) {
        return Ok(());
    }
    let message = "this store cannot bound how many request ids it keeps";
    Err(Error::new(Code::Unsupported, message).with_field("max_request_ids").not_sent())
}

/// A record with the break before it.
fn line_bytes(record: &Record) -> usize {
    record.to_line().len() + 1
}

fn full() -> Error {
    Error::new(
        Code::QueueFull,
        "too many request ids are kept for this key; wait until some expire",
    )
}

pub(super) fn store_full() -> Error {
    Error::new(
        Code::QueueFull,
        "too many request ids are kept by this store; wait until some expire",
    )
}

pub(super) fn share_full() -> Error {
    Error::new(
        Code::QueueFull,
        "too many request ids are kept for this key or its policy; wait until some expire",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_without_a_state_holds_lines_up_to_the_bound() {
        let bounds =
            Bounds { embeds_records: true, max_records: 1, max_bytes: 400, slack: 0, room: 1 };
        assert!(bounds.has_room(None, 398), "and the two bytes of an empty state");
        assert!(!bounds.has_room(None, 399));
    }
}
