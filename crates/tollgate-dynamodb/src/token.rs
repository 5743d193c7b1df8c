//! Versions: a text that no other write has, of any process at any time.
//!
//! A counter would do to notice that somebody wrote. A text that is unique says more: whoever finds
//! its own in an item knows that its write was applied, though the answer was lost.

use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;

/// Makes the versions of one store.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// 96 random bits: no two stores share them.
    origin: String,
    next: AtomicU64,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        // The keys of a `RandomState` are the only randomness the standard library hands out.
        let random = || RandomState::new().build_hasher().finish();
        let origin = format!("{:016x}{:08x}", random(), random() >> 32);
        Self { origin, next: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}{number:x}", self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transaction is named by such a token, which may be no longer.
    const CLIENT_REQUEST_TOKEN_MAX: usize = 36;

    #[test]
    fn tokens_are_short_enough_to_name_transactions() {
        let tokens = Tokens::new();
        tokens.next.store((1 << 48) - 1, Ordering::Relaxed);
        assert_eq!(tokens.next().len(), CLIENT_REQUEST_TOKEN_MAX);
    }

    #[test]
    fn no_two_tokens_are_equal() {
        let stores: Vec<Tokens> = (0..100).map(|_| Tokens::new()).collect();
        let tokens = stores.iter().flat_map(|tokens| (0..100).map(|_| tokens.next()));
        let distinct: std::collections::HashSet<String> = tokens.collect();
        assert_eq!(distinct.len(), 10_000);
    }
}
