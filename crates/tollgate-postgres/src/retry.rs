//! Randomness for the waits between retries.

use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;

/// The keys of a `RandomState` are the only randomness of the standard library.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
