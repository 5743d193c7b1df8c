//! The bounds of one policy.

use core::time::Duration;

use super::table;
use crate::charge::RequestId;
use crate::error::{Error, Result};
use crate::time::micros_of;

/// Keys of a policy when no bound is given.
#[cfg(not(target_arch = "wasm32"))]
const DEFAULT_MAX_KEYS: usize = 1_000_000;
/// A Worker has little memory.
#[cfg(target_arch = "wasm32")]
const DEFAULT_MAX_KEYS: usize = 16_384;
/// Request ids of a policy when no bound is given: 10,000 per second for five minutes.
#[cfg(not(target_arch = "wasm32"))]
const DEFAULT_MAX_REQUEST_IDS: usize = 3_000_000;
/// A Worker has little memory.
#[cfg(target_arch = "wasm32")]
const DEFAULT_MAX_REQUEST_IDS: usize = 100_000;

/// The shortest and the longest time for which request ids are kept.
const KEEP_MIN: Duration = Duration::from_secs(1);
const KEEP_MAX: Duration = Duration::from_secs(30 * 86_400);

/// What happens to keys that are new when the table of their policy is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The debt of a throttled key is kept: when the key has to make room, its debt stays, and
    /// newcomers of its neighbourhood are denied until the debt has decayed.
    #[default]
    Protect,
    /// Newcomers pass: the debt of a throttled key that has to make room is dropped.
    Admit,
}

/// What happens to request ids that are new when their bound is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenIdsFull {
    /// The record that expires first is forgotten early: a late retry under its id is decided anew,
    /// and may be charged twice.
    #[default]
    ForgetOldest,
    /// New ids are refused with `queue_full`.
    Refuse,
}

/// How much is kept for one policy, by the memory store; and its request ids, by every store.
///
/// ```
/// use tollgate_core::store::Bounds;
/// use tollgate_core::{Limit, Quota};
///
/// let sign_in = Limit::gcra("sign-in", Quota::per_minute(5))?;
/// let sign_in = sign_in.bounded(Bounds::new().max_keys(50_000));
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Bounds {
    max_keys: Option<usize>,
    max_request_ids: Option<usize>,
    when_full: Option<WhenFull>,
    when_ids_full: Option<WhenIdsFull>,
    keep_request_ids: Option<Duration>,
}

impl Bounds {
    /// The bounds of the store.
    pub const fn new() -> Self {
        Self {
            max_keys: None,
            max_request_ids: None,
            when_full: None,
            when_ids_full: None,
            keep_request_ids: None,
        }
    }

    /// How many keys are kept, at least 1. See [`MemoryBuilder::max_keys`].
    ///
    /// [`MemoryBuilder::max_keys`]: super::MemoryBuilder::max_keys
    pub const fn max_keys(mut self, max: usize) -> Self {
        self.max_keys = Some(max);
        self
    }

    /// How many request ids are kept at once, at least 1. See
    /// [`MemoryBuilder::max_request_ids`].
    ///
    /// [`MemoryBuilder::max_request_ids`]: super::MemoryBuilder::max_request_ids
    pub const fn max_request_ids(mut self, max: usize) -> Self {
        self.max_request_ids = Some(max);
        self
    }

    /// What happens to newcomers once `max_keys` are held.
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = Some(when_full);
        self
    }

    /// What happens to new request ids once `max_request_ids` are kept, or a sixteenth of
    /// them for one key.
    pub const fn when_ids_full(mut self, when_full: WhenIdsFull) -> Self {
        self.when_ids_full = Some(when_full);
        self
    }

    /// How long request ids are kept, from a second to 30 days: five minutes by default. It is for
    /// hosts that make the request ids of their callers; a [`RequestId`] of a library says itself
    /// how long it is kept.
    pub const fn keep_request_ids(mut self, keep: Duration) -> Self {
        self.keep_request_ids = Some(keep);
        self
    }

    /// How long request ids are kept.
    #[must_use]
    pub fn request_ids_are_kept_for(&self) -> Duration {
        let default = Duration::from_micros(RequestId::DEFAULT_KEEP);
        self.keep_request_ids.unwrap_or(default).clamp(KEEP_MIN, KEEP_MAX)
    }

    /// Whether the oldest request id makes room for a new one.
    #[must_use]
    pub fn forgets_request_ids(&self) -> bool {
        self.when_ids_full_or_default() == WhenIdsFull::ForgetOldest
    }

    /// Whether the bounds are in range; a limit that has others gets the nearest accepted ones.
    ///
    /// # Errors
    /// `config_invalid` naming the bound that is out of range.
    pub fn validate(&self) -> Result<()> {
        in_range("max_keys", self.max_keys, (1, table::KEYS_MAX))?;
        in_range("max_request_ids", self.max_request_ids, (1, usize::MAX))?;
        match self.keep_request_ids {
            Some(keep) if !(KEEP_MIN..=KEEP_MAX).contains(&keep) => {
                let message =
                    format!("{} us are out of range; accepted: 1s to 30d", micros_of(keep));
                Err(Error::config("keep_request_ids", message))
            }
            _ => Ok(()),
        }
    }

    /// These bounds, and others where there are none.
    pub fn or(&self, defaults: &Self) -> Self {
        Self {
            max_keys: self.max_keys.or(defaults.max_keys),
            max_request_ids: self.max_request_ids.or(defaults.max_request_ids),
            when_full: self.when_full.or(defaults.when_full),
            when_ids_full: self.when_ids_full.or(defaults.when_ids_full),
            keep_request_ids: self.keep_request_ids.or(defaults.keep_request_ids),
        }
    }

    pub(super) fn max_keys_or_default(&self) -> usize {
        self.max_keys.unwrap_or(DEFAULT_MAX_KEYS).clamp(1, table::KEYS_MAX)
    }

    pub(super) fn when_full_or_default(&self) -> WhenFull {
        self.when_full.unwrap_or_default()
    }

    pub(super) fn when_ids_full_or_default(&self) -> WhenIdsFull {
        self.when_ids_full.unwrap_or_default()
    }

    /// How many request ids are kept, if it was set.
    #[must_use]
    pub const fn max_request_ids_if_set(&self) -> Option<usize> {
        self.max_request_ids
    }

    /// What happens to new request ids once too many are kept, if it was set.
    #[must_use]
    pub const fn when_ids_full_if_set(&self) -> Option<WhenIdsFull> {
        self.when_ids_full
    }

    pub(super) fn max_request_ids_or_default(&self) -> usize {
        self.max_request_ids.unwrap_or(DEFAULT_MAX_REQUEST_IDS).max(1)
    }
}

pub(super) fn in_range(
    field: &'static str,
    value: Option<usize>,
    (min, max): (usize, usize),
) -> Result<()> {
    match value {
        Some(value) if !(min..=max).contains(&value) => {
            let accepted = if max == usize::MAX {
                format!("{min} and more")
            } else {
                format!("{min} to {max}")
            };
            Err(Error::config(field, format!("{value} is out of range; accepted: {accepted}")))
        }
        _ => Ok(()),
    }
}
