//! Versions of items: a text that no other write ever has, in any process.
//!
//! A counter would suffice to detect a change. A unique text also identifies the writer: a process
//! that finds its own version in an item knows that its write was applied, even without a response.

use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;

/// Generates the versions of one store.
#[derive(Debug)]
pub(crate) struct VersionGenerator {
    /// 96 random bits, which no two stores share.
    prefix: String,
    next: AtomicU64,
}

impl VersionGenerator {
    pub(crate) fn new() -> Self {
        // The keys of a `RandomState` are the only randomness of the standard library.
        let random = || RandomState::new().build_hasher().finish();
        let prefix = format!("{:016x}{:08x}", random(), random() >> 32);
        Self { prefix, next: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}{number:x}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version is also the token of its transaction, which is bounded.
    const CLIENT_REQUEST_TOKEN_MAX: usize = 36;

    #[test]
    fn versions_are_short_enough_for_the_token_of_a_transaction() {
        let versions = VersionGenerator::new();
        versions.next.store((1 << 48) - 1, Ordering::Relaxed);
        assert_eq!(versions.next().len(), CLIENT_REQUEST_TOKEN_MAX);
    }

    #[test]
    fn no_two_versions_are_equal() {
        let stores: Vec<VersionGenerator> = (0..100).map(|_| VersionGenerator::new()).collect();
        let versions = stores.iter().flat_map(|versions| (0..100).map(|_| versions.next()));
        let distinct: std::collections::HashSet<String> = versions.collect();
        assert_eq!(distinct.len(), 10_000);
    }
}
