//! How many rounds of a queue are running, and whether a caller waits for the next one: one byte.
//!
//! A caller without competition reads and writes nothing else, so it takes no lock. Gates lie apart
//! from their queues: a store with thousands of queues keeps all its gates in a few cache lines.

use core::sync::atomic::{AtomicU8, Ordering};

/// Set while a caller waits. It is changed under the lock of the queue only, and while it is set,
/// rounds begin and end under that lock only.
const AWAITED: u8 = 1 << 7;
/// Set while a large round is running: a caller that arrives then waits for others instead of
/// running beside it alone.
const LARGE: u8 = 1 << 6;
/// More rounds than any store runs at once.
pub(super) const RUNNING_MAX: u8 = LARGE - 1;

/// A byte that is changed atomically: of the processor, or of a model checker.
pub(super) trait AtomicByte {
    fn load(&self) -> u8;
    /// Changes it unless `to` says not to; whether it was changed.
    fn update(&self, to: impl FnMut(u8) -> Option<u8>) -> bool;
}

impl AtomicByte for AtomicU8 {
    fn load(&self) -> u8 {
        self.load(Ordering::Acquire)
    }

    fn update(&self, to: impl FnMut(u8) -> Option<u8>) -> bool {
        self.fetch_update(Ordering::AcqRel, Ordering::Acquire, to).is_ok()
    }
}

/// The number of running rounds, and two flags.
#[derive(Debug, Default)]
pub(super) struct Gate<A = AtomicU8>(pub(super) A);

/// The gate of the first queue has a cache line of its own: where there is only one queue, all
/// callers of the process use it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct FirstGate(pub(super) Gate);

impl<A: AtomicByte> Gate<A> {
    /// Begins one more round if no caller waits and fewer than `concurrent` are running.
    pub(super) fn try_enter(&self, concurrent: u8) -> bool {
        self.0.update(|gate| match gate {
            // The large round has ended.
            LARGE => Some(1),
            _ => (gate < concurrent).then_some(gate + 1),
        })
    }

    /// Ends a round if no caller waits.
    pub(super) fn try_leave(&self) -> bool {
        self.0.update(|gate| (gate < AWAITED).then_some(gate.saturating_sub(1)))
    }

    pub(super) fn running(&self) -> u8 {
        self.0.load() & RUNNING_MAX
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.0.load() >= AWAITED
    }

    pub(super) fn enter(&self) {
        self.0.update(|gate| Some(gate + 1));
    }

    pub(super) fn leave(&self) {
        self.0.update(|gate| Some(gate - 1));
    }

    pub(super) fn set_awaited(&self, is_awaited: bool) {
        self.mark(AWAITED, is_awaited);
    }

    pub(super) fn set_large(&self, is_large: bool) {
        self.mark(LARGE, is_large);
    }

    fn mark(&self, bit: u8, is_set: bool) {
        self.0.update(|gate| Some(if is_set { gate | bit } else { gate & !bit }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_rounds_run_than_are_allowed() {
        let gate: Gate = Gate::default();
        assert!(gate.try_enter(2) && gate.running() == 1);
        assert!(gate.try_enter(2) && gate.running() == 2);
        assert!(!gate.try_enter(2));
        assert!(gate.try_leave() && gate.try_enter(2));
    }

    #[test]
    fn no_single_call_runs_beside_a_large_round() {
        let gate: Gate = Gate::default();
        gate.enter();
        gate.set_large(true);
        assert!(!gate.try_enter(2));
        assert_eq!(gate.running(), 1);
        assert!(gate.try_leave() && gate.running() == 0);
        assert!(gate.try_enter(2) && gate.try_enter(2), "the large round has ended");
    }

    #[test]
    fn no_call_overtakes_waiters() {
        let gate: Gate = Gate::default();
        assert!(gate.try_enter(2));
        gate.set_awaited(true);
        assert!(gate.is_awaited() && gate.running() == 1);
        assert!(!gate.try_enter(2) && !gate.try_leave());
        gate.enter();
        gate.set_awaited(false);
        assert!(!gate.is_awaited() && gate.try_leave() && gate.try_leave());
        assert!(gate.try_enter(2));
    }
}
