//! Reads the bytes of the key and does nothing with them: what the loop itself costs.
//!
//! With a million keys the text of the key is seldom in the cache, for any contender. In a server
//! it is, because it was just parsed; subtract this column to see the limiter alone.

use std::hint::black_box;

use super::{Contender, Setup};

/// The loop without a limiter.
#[derive(Debug)]
pub(crate) struct KeyOnly {
    verdict: bool,
}

impl Contender for KeyOnly {
    type Answer = u8;

    fn new(setup: &Setup) -> Self {
        Self { verdict: setup.path.is_allowed() }
    }

    #[inline]
    fn check(&self, key: &String) -> u8 {
        black_box(key.as_bytes().last().copied().unwrap_or(0))
    }

    /// Decides nothing: it repeats what is expected of the others.
    #[inline]
    fn is_allowed(&self, _: &u8) -> bool {
        self.verdict
    }
}
