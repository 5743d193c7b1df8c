//! How many units a request has used so far: counted by the service, read by the layer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The units that a request has used so far. The service counts them; the layer settles for them
/// when the body of the response has ended.
///
/// A layer with a limit that [settles at the end](crate::LimitRule::settle_at_end) puts one into
/// the extensions of every request. Clones count for the same request: one may move into the stream
/// of the body. What is counted after the end of the body changes nothing.
///
/// Until the first call of [`Usage::add`] or [`Usage::set`] nothing is known about the request, and
/// its charge stays as it is.
#[derive(Clone, Debug, Default)]
pub struct Usage(
    /// 0 until something is known, else one more than the units.
    Arc<AtomicU64>,
);

impl Usage {
    /// Counts more units. Of none, it says that the request used what was counted so far.
    pub fn add(&self, units: u64) {
        self.change(|counted| counted.saturating_add(units));
    }

    /// Sets the number of units, for services that learn it as a whole.
    pub fn set(&self, units: u64) {
        self.change(|_| units);
    }

    /// The units so far; `None` if nothing is known yet.
    #[must_use]
    pub fn units(&self) -> Option<u64> {
        self.0.load(Relaxed).checked_sub(1)
    }

    fn change(&self, change: impl Fn(u64) -> u64) {
        let next = |counted: u64| Some(change(counted.saturating_sub(1)).saturating_add(1));
        // The closure always changes it.
        let _always = self.0.fetch_update(Relaxed, Relaxed, next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_counted_over_clones_and_never_wrap() {
        let usage = Usage::default();
        assert_eq!(usage.units(), None);
        let clone = usage.clone();
        clone.add(0);
        assert_eq!(usage.units(), Some(0));
        clone.add(3);
        usage.add(4);
        assert_eq!(clone.units(), Some(7));
        usage.set(2);
        assert_eq!(clone.units(), Some(2));
        usage.set(u64::MAX);
        usage.add(1);
        assert_eq!(usage.units(), Some(u64::MAX - 1));
    }
}
