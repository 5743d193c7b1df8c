//! Which policy and which key a call or a request id belongs to, as numbers that are compared
//! often.

use core::hash::BuildHasher;
use std::hash::RandomState;
use std::sync::LazyLock;

use crate::key::Key;

/// A policy, with its prefix, and a key of it, hashed with a secret of the process: callers cannot
/// choose keys whose numbers are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    pub(crate) policy: u64,
    pub(crate) key: u64,
}

impl Owner {
    /// The owner of what happens to a key.
    #[must_use]
    pub fn of(key: Key<'_>) -> Self {
        static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let policy = SECRET.hash_one((key.prefix.as_str(), key.policy.as_str()));
        Self { policy, key: SECRET.hash_one((policy, key.subject)) }
    }
}
