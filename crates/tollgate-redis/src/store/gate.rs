//! How many rounds of a queue are under way, and whether somebody waits for the next one.
//!
//! It is all that a caller who meets nobody looks at, so it lies apart from its queue: a cluster has
//! thousands of them, and a byte of each stays at hand where whole queues would be fetched for every call.

use core::sync::atomic::{AtomicU8, Ordering};

/// Rounds under way at once: while one is computed, the other travels.
const FLIGHTS: u8 = 2;
/// Set while somebody waits: then what happens is decided under the lock of the queue.
const AWAITED: u8 = 1 << 7;
/// Set while many share a round: whoever comes next waits for others instead of flying beside it alone.
const CROWDED: u8 = 1 << 6;

/// The number of rounds under way. Callers who meet nobody change it without a lock, as long as nobody
/// waits; whether somebody does is changed under the lock of the queue only.
#[derive(Debug, Default)]
pub(super) struct Gate(AtomicU8);

impl Gate {
    /// Lets one more round fly, if nobody waits.
    pub(super) fn lift_off_alone(&self) -> bool {
        self.change(|gate| match gate {
            // The crowd has landed.
            0 | CROWDED => Some(1),
            1..FLIGHTS => Some(gate + 1),
            _ => None,
        })
    }

    /// Ends a round, if nobody waits.
    pub(super) fn land_alone(&self) -> bool {
        self.change(|flights| (flights < AWAITED).then_some(flights.saturating_sub(1)))
    }

    /// Whether another round may fly.
    pub(super) fn is_open(&self) -> bool {
        self.flights() < FLIGHTS
    }

    /// Rounds under way.
    pub(super) fn flights(&self) -> u8 {
        self.0.load(Ordering::Acquire) & !(AWAITED | CROWDED)
    }

    /// Whether somebody waits.
    pub(super) fn is_awaited(&self) -> bool {
        self.0.load(Ordering::Acquire) >= AWAITED
    }

    pub(super) fn lift_off(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn land(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn set_awaited(&self, is_awaited: bool) {
        self.mark(AWAITED, is_awaited);
    }

    pub(super) fn set_crowded(&self, is_crowded: bool) {
        self.mark(CROWDED, is_crowded);
    }

    fn mark(&self, bit: u8, is_set: bool) {
        if is_set {
            self.0.fetch_or(bit, Ordering::AcqRel);
        } else {
            self.0.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    fn change(&self, to: impl FnMut(u8) -> Option<u8>) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, to).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_rounds_fly_and_no_more() {
        let gate = Gate::default();
        assert!(gate.lift_off_alone() && gate.is_open());
        assert!(gate.lift_off_alone() && !gate.is_open());
        assert!(!gate.lift_off_alone());
        assert!(gate.land_alone() && gate.lift_off_alone());
    }

    #[test]
    fn nobody_flies_alone_beside_a_crowd() {
        let gate = Gate::default();
        gate.lift_off();
        gate.set_crowded(true);
        assert!(!gate.lift_off_alone());
        assert!(gate.is_open() && gate.flights() == 1);
        assert!(gate.land_alone() && gate.flights() == 0);
        assert!(gate.lift_off_alone() && gate.lift_off_alone(), "it has landed");
    }

    #[test]
    fn nobody_passes_those_who_wait() {
        let gate = Gate::default();
        assert!(gate.lift_off_alone());
        gate.set_awaited(true);
        assert!(gate.is_awaited() && gate.is_open());
        assert!(!gate.lift_off_alone() && !gate.land_alone());
        gate.lift_off();
        assert!(!gate.is_open());
        gate.set_awaited(false);
        assert!(!gate.is_awaited() && gate.land_alone() && gate.land_alone());
        assert!(gate.lift_off_alone());
    }
}
