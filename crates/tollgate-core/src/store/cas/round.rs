//! Many admissions over values that no other writer changes until they are written.
//!
//! For stores that hold what they read, by a lock or a transaction, and so need no versions: they
//! read the values under [`Round::names`], let [`Round::decide`] run the steps in Rust, and write
//! what it returns, all or nothing. Values and names are those of [`Cas`](super::Cas): the text of
//! the state under the text of the key, and a value of its own for each request id.

use super::bounds::Bounds;
use super::draft::Draft;
use super::layout::{Item, Layout};
use super::stored_value::StoredValue;
use super::versioned::{Entry, Snapshot, Version};
use super::{Evidence, Forget, ReservedIds, TimeSource};
use crate::charge::Admission;
use crate::error::Result;
use crate::state::State;
use crate::time::Micros;

/// Admissions that are decided together, in order.
#[derive(Debug)]
pub struct Round<'a> {
    items: Vec<Item<'a>>,
    layout: Layout,
}

/// What bounds a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundBounds {
    /// How long a value is kept after it means nothing any more.
    pub slack: Micros,
    /// How many request ids may be added. More are refused with `queue_full`, or with shares, where
    /// the limit says so, older ones are forgotten.
    pub room: usize,
}

/// What a round decided, and the writes that make it true.
#[derive(Debug)]
#[non_exhaustive]
pub struct Decided {
    /// The evidence of each admission, or why there is none, in their order.
    pub outcomes: Vec<Result<Evidence>>,
    /// What is to be written before an admission is answered. Each name at most once.
    pub writes: Vec<ValueWrite>,
    /// Request ids that are to be forgotten, to make room for those that are written.
    pub forget: Vec<Forget>,
}

/// A value that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueWrite {
    /// Where it belongs: the place of its name in [`Round::names`].
    pub place: usize,
    /// The value.
    pub text: String,
    /// From this instant on it may be deleted.
    pub keep_until: Micros,
}

/// Where a value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueName<'r> {
    /// The text of a key, or of a key and a request id: no two are the same.
    pub text: &'r str,
    /// Whether it is that of a request id.
    pub is_record: bool,
}

impl<'a> Round<'a> {
    /// A round of these admissions, each of at least one charge.
    pub fn of(admissions: impl IntoIterator<Item = (Admission<'a>, TimeSource)>) -> Self {
        let items = admissions.into_iter().map(|(admission, at)| Item { admission, at });
        let items: Vec<Item<'a>> = items.collect();
        let layout = Layout::of(&items, false);
        Self { items, layout }
    }

    /// The names of all values that are needed, each once.
    #[must_use]
    pub fn names(&self) -> impl ExactSizeIterator<Item = ValueName<'_>> {
        self.layout.names_and_kinds().map(|(text, is_record)| ValueName { text, is_record })
    }

    /// Runs the admissions in order over the values of [`Round::names`], `None` where there is
    /// none.
    ///
    /// # Errors
    /// `corrupt_state` when there are not as many values as names. What concerns a single admission
    /// is in its outcome.
    pub fn decide(
        &self,
        values: Vec<Option<String>>,
        clock: Option<Micros>,
        bounds: RoundBounds,
    ) -> Result<Decided> {
        self.decide_within(values, clock, (bounds, None))
    }

    /// As [`Round::decide`], where each policy and each key adds no more request ids than its
    /// share. What is to be forgotten for them is in [`Decided::forget`].
    ///
    /// # Errors
    /// As [`Round::decide`].
    pub fn decide_with_shares(
        &self,
        values: Vec<Option<String>>,
        clock: Option<Micros>,
        (bounds, ids): (RoundBounds, &mut ReservedIds<'_>),
    ) -> Result<Decided> {
        self.decide_within(values, clock, (bounds, Some(ids)))
    }

    fn decide_within(
        &self,
        values: Vec<Option<String>>,
        clock: Option<Micros>,
        (bounds, ids): (RoundBounds, Option<&mut ReservedIds<'_>>),
    ) -> Result<Decided> {
        // No version is compared: what was read stays as it is.
        let entry = |text| Entry { text, version: Version::Number(0) };
        let entries = values.into_iter().map(|value| value.map(entry)).collect();
        let bounds = Bounds {
            embeds_records: false,
            max_records: 1,
            max_bytes: 0,
            slack: bounds.slack,
            room: bounds.room,
        };
        let snapshot = Snapshot { entries, clock };
        let draft = Draft::make(&self.items, &self.layout, snapshot, (bounds, ids))?;
        let (outcomes, writes, forget) = draft.into_parts();
        Ok(Decided { outcomes, writes, forget })
    }
}

/// The state in a value that a round has written.
///
/// # Errors
/// `corrupt_state` when it cannot be read.
pub fn state_in(text: &str) -> Result<Option<State>> {
    Ok(StoredValue::from_text(text)?.state)
}
