//! The settings of a memory store.

use core::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::bounds::{Bounds, WhenFull, WhenIdsFull, in_range};
use super::budget::Budget;
use super::fingerprint::Secrets;
use super::policies::AllStates;
use super::table::{KEYS_MAX, Table};
use super::{Inner, Memory};
use crate::error::{Error, Result};
use crate::store::parameters::{Parameter, ParameterSpec, ms_or_off, set_all, whole, word};

/// Bytes for all policies when no bound is given, or four times what one policy may take for its
/// keys, whichever is more.
#[cfg(not(target_arch = "wasm32"))]
const DEFAULT_MEMORY: usize = 1 << 30;
/// A Worker has little memory.
#[cfg(target_arch = "wasm32")]
const DEFAULT_MEMORY: usize = 32 << 20;
/// The least bound on bytes.
const MEMORY_MIN: usize = 1 << 20;
const SCHEME: &str = "memory:";

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct MemoryBuilder {
    bounds: Bounds,
    memory: Option<usize>,
    sweep_every: Option<Duration>,
}

const PARAMETERS: &[Parameter<MemoryBuilder>] = &[
    Parameter::new(
        "max_keys",
        "1000000",
        "1 to 4294967296",
        "how many keys are kept for each limit of a policy that sets no bound",
        |memory, text| {
            let keys = whole(text, 1..=KEYS_MAX as u64);
            keys.map(|keys| *memory = memory.max_keys(keys))
        },
    ),
    Parameter::new(
        "when_full",
        "protect",
        "protect, admit",
        "what happens then: no throttled key is forgiven, or newcomers pass",
        |memory, text| {
            let words = [("protect", WhenFull::Protect), ("admit", WhenFull::Admit)];
            word(text, &words).map(|full| *memory = memory.bounds(memory.bounds.when_full(full)))
        },
    ),
    Parameter::new(
        "max_request_ids",
        "3000000",
        "a whole number, at least 1",
        "how many request ids are kept for a policy that sets no bound",
        |memory, text| {
            let ids = whole(text, 1..=u64::MAX);
            ids.map(|ids| *memory = memory.max_request_ids(ids))
        },
    ),
    Parameter::new(
        "when_ids_full",
        "forget_oldest",
        "forget_oldest, refuse",
        "what happens then",
        |memory, text| {
            let (forget, refuse) = (WhenIdsFull::ForgetOldest, WhenIdsFull::Refuse);
            let words = [("forget_oldest", forget), ("refuse", refuse)];
            let full = word(text, &words);
            full.map(|full| *memory = memory.bounds(memory.bounds.when_ids_full(full)))
        },
    ),
    Parameter::new(
        "memory",
        "1 GiB, or four times what `max_keys` need",
        "bytes, at least 1048576",
        "how much all policies take at most",
        |memory, text| {
            let bytes = whole(text, MEMORY_MIN as u64..=u64::MAX);
            bytes.map(|bytes| *memory = memory.memory(bytes))
        },
    ),
    Parameter::new(
        "sweep_every_ms",
        "0",
        "milliseconds, or 0 for never",
        "the pause between two sweeps for long states that have expired",
        |memory, text| ms_or_off(text).map(|pause| memory.sweep_every = pause),
    ),
];

/// The URL is `memory:`, with [`parameters`](MemoryBuilder::parameters) such as
/// `memory:?max_keys=10000`. Parsing fails with `config_invalid` naming `url` or the parameter.
impl FromStr for MemoryBuilder {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let accepted = || Error::config("url", "accepted: `memory:`, and `?name=value` after it");
        let query = url.strip_prefix(SCHEME).ok_or_else(accepted)?;
        let query = if query.is_empty() { "?" } else { query };
        let mut memory = Self::default();
        set_all(&mut memory, query.strip_prefix('?').ok_or_else(accepted)?, PARAMETERS)?;
        Ok(memory)
    }
}

impl MemoryBuilder {
    /// The parameters of the URL.
    pub fn parameters() -> impl Iterator<Item = ParameterSpec> {
        PARAMETERS.iter().map(Parameter::spec)
    }

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

    /// How many request ids are kept at once for each policy, 3,000,000 by default, unless its
    /// limit has [`Bounds`]. A record takes 64 bytes or less for a charge of a schedule. One of
    /// more than 512 bytes counts as several: a refund keeps the whole state of its key.
    pub const fn max_request_ids(mut self, max: usize) -> Self {
        self.bounds = self.bounds.max_request_ids(max);
        self
    }

    /// The bounds of policies whose limits have none.
    pub const fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// How many bytes the lines, the long states and the request ids of all policies take at most:
    /// 1 GiB by default, or four times what `max_keys` need.
    ///
    /// Neither the keys of a policy nor its request ids take more than they leave free, so either
    /// takes at most half. Without memory, a table does not grow, as if it had reached its bound of
    /// keys, a longer state (`sliding_log`) is refused with `queue_full`, and request ids are
    /// forgotten or refused, as at their own bound.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parameters_of_the_url() {
        let url = "memory:?max_keys=10&when_full=admit&max_request_ids=20&when_ids_full=refuse\
                   &memory=2097152&sweep_every_ms=5";
        let bounds = Bounds::new().max_keys(10).max_request_ids(20);
        let bounds = bounds.when_full(WhenFull::Admit).when_ids_full(WhenIdsFull::Refuse);
        let built = MemoryBuilder::default().bounds(bounds).memory(2 << 20);
        let built = built.sweep_every(Duration::from_millis(5));
        assert_eq!(url.parse::<MemoryBuilder>().unwrap(), built);
        for plain in ["memory:", "memory:?"] {
            assert_eq!(plain.parse::<MemoryBuilder>().unwrap(), MemoryBuilder::default());
        }
    }

    #[test]
    fn errors_name_the_parameter() {
        for (url, field) in [
            ("memory", "url"),
            ("memory:x", "url"),
            ("memory://?max_keys=1", "url"),
            ("memory:?keys=1", "url"),
            ("memory:?max_keys=0", "max_keys"),
            ("memory:?max_keys=many", "max_keys"),
            ("memory:?memory=1", "memory"),
            ("memory:?when_full=forgive", "when_full"),
        ] {
            let error = url.parse::<MemoryBuilder>().unwrap_err();
            assert_eq!(error.field(), Some(field), "{url}: {error}");
        }
    }
}
