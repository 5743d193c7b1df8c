//! How many rounds of a queue are running, and whether a caller waits for the next one: one byte.
//!
//! A caller without competition reads and writes nothing else, so it takes no lock. Gates lie apart
//! from their queues: a store with thousands of queues keeps all its gates in a few cache lines.

use super::sync::{AcqRel, Acquire, AtomicU8};

/// Set while a caller waits. It is changed under the lock of the queue only, and while it is set,
/// rounds begin and end under that lock only.
const AWAITED: u8 = 1 << 7;
/// Set while a large round is running: a caller that arrives then waits for others instead of
/// running beside it alone.
const LARGE: u8 = 1 << 6;
/// More rounds than any store runs at once.
pub(super) const RUNNING_MAX: u8 = LARGE - 1;

/// The number of running rounds, and two flags.
#[derive(Debug, Default)]
pub(super) struct Gate(AtomicU8);

/// The gate of the first queue has a cache line of its own: where there is only one queue, all
/// callers of the process use it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct FirstGate(pub(super) Gate);

impl Gate {
    /// Begins one more round if no caller waits and fewer than `concurrent` are running.
    pub(super) fn try_enter(&self, concurrent: u8) -> bool {
        self.update(|gate| match gate {
            // The large round has ended.
            LARGE => Some(1),
            _ => (gate < concurrent).then_some(gate + 1),
        })
    }

    /// Ends a round if no caller waits.
    pub(super) fn try_leave(&self) -> bool {
        self.update(|gate| (gate < AWAITED).then_some(gate.saturating_sub(1)))
    }

    pub(super) fn running(&self) -> u8 {
        self.0.load(Acquire) & RUNNING_MAX
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.0.load(Acquire) >= AWAITED
    }

    pub(super) fn enter(&self) {
        self.update(|gate| Some(gate + 1));
    }

    pub(super) fn leave(&self) {
        self.update(|gate| Some(gate - 1));
    }

    pub(super) fn set_awaited(&self, is_awaited: bool) {
        self.mark(AWAITED, is_awaited);
    }

    pub(super) fn set_large(&self, is_large: bool) {
        self.mark(LARGE, is_large);
    }

    fn mark(&self, bit: u8, is_set: bool) {
        self.update(|gate| Some(if is_set { gate | bit } else { gate & !bit }));
    }

    /// Changes it unless `to` says not to; whether it was changed.
    fn update(&self, to: impl FnMut(u8) -> Option<u8>) -> bool {
        self.0.fetch_update(AcqRel, Acquire, to).is_ok()
    }
}
