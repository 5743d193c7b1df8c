//! The settings of a memory store.

use std::sync::Arc;
use std::time::Duration;

use super::bounds::{Bounds, in_range};
use super::budget::Budget;
use super::fingerprint::Secrets;
use super::policies::AllStates;
use super::table::Table;
use super::{Inner, Memory};
use crate::error::Result;

/// Bytes for all policies when no bound is given, or four times what one policy may take for its
/// keys, whichever is more.
#[cfg(not(target_arch = "wasm32"))]
const DEFAULT_MEMORY: usize = 1 << 30;
/// A Worker has little memory.
#[cfg(target_arch = "wasm32")]
const DEFAULT_MEMORY: usize = 32 << 20;
/// The least bound on bytes.
const MEMORY_MIN: usize = 1 << 20;

/// Sets the bounds of a [`Memory`].
///
/// ```
/// use tollgate_core::Limiter;
/// use tollgate_core::store::Memory;
///
/// let store = Memory::builder().max_keys(50_000).memory(64 << 20).build()?;
/// let limiter = Limiter::new(store);
/// # let _ = limiter;
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct MemoryBuilder {
    bounds: Bounds,
    memory: Option<usize>,
    sweep_every: Option<Duration>,
}

impl MemoryBuilder {
    /// How many keys are kept of each policy, 1,000,000 by default, unless its limit has
    /// [`Bounds`]. A key takes 94 bytes once the table has grown to this bound. On its way there, a
    /// table of thousands of keys has three to seven lines of 64 bytes for each.
    ///
    /// Once that many keys are held, newcomers take the place of keys that have expired or owe
    /// least. The table has nearly half as many lines again, to keep searches short; a newcomer
    /// that would otherwise replace a throttled key takes one of those, so [`Memory::len`] can
    /// exceed this by half and 32 per shard (of which there are 1 to 64), but the table never grows
    /// further.
    pub const fn max_keys(mut self, max_keys: usize) -> Self {
        self.bounds = self.bounds.max_keys(max_keys);
        self
    }

    /// How many request ids are kept at once for each policy, 100,000 by default, unless its
    /// limit has [`Bounds`]. One whose record holds more than 1 KiB counts as several: a refund
    /// under an id keeps the whole state of its key.
    pub const fn max_request_ids(mut self, max: usize) -> Self {
        self.bounds = self.bounds.max_request_ids(max);
        self
    }

    /// The bounds of policies whose limits have none.
    pub const fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// How many bytes the lines and the long states of all policies take at most: 1 GiB by default,
    /// or four times what `max_keys` need.
    ///
    /// No policy takes more than it leaves free, so one alone takes at most half. Without memory,
    /// a table does not grow, as if it had reached its bound of keys, and a longer state
    /// (`sliding_log`) is refused with `queue_full`.
    pub const fn memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Frees long states that have expired every so often, in the background; off by default.
    ///
    /// Only states that do not fit a cache line take memory of their own, and insertions free them
    /// too. The thread ends with the store and never keeps a process alive. Not on wasm32.
    pub const fn sweep_every(mut self, interval: Duration) -> Self {
        self.sweep_every = Some(interval);
        self
    }

    /// Makes the store. Memory is taken as keys come.
    ///
    /// # Errors
    /// `config_invalid` naming the bound that is out of range.
    pub fn build(self) -> Result<Memory> {
        self.bounds.validate()?;
        in_range("memory", self.memory, (MEMORY_MIN, usize::MAX))?;
        let bounds = self.bounds;
        let for_policy = Table::bytes_for(bounds.max_keys_or_default());
        let memory = self.memory.unwrap_or(DEFAULT_MEMORY.max(for_policy.saturating_mul(4)));
        let memory = Memory(Arc::new(Inner {
            states: AllStates::new(Budget::new(memory), bounds),
            secrets: Secrets::of_process(),
        }));
        #[cfg(not(target_arch = "wasm32"))]
        if let Some(interval) = self.sweep_every {
            super::sweep::in_background(Arc::downgrade(&memory.0), interval)?;
        }
        Ok(memory)
    }
}
