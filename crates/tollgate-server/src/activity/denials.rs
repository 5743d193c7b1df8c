//! The last denials of a policy, in a ring.

use std::collections::VecDeque;

use tollgate::Name;

/// The most denials that are kept of a policy.
const DENIALS_MAX: usize = 256;
/// How many of the newest ones are searched for the same key, so that a few keys that are denied
/// all the time do not fill the ring.
const SEARCHED: usize = 16;
/// Within which time denials of a key by a limit are one.
const TOGETHER_MS: u64 = 1_000;

/// The last denials of a policy.
#[derive(Debug, Default)]
pub(super) struct Denials(VecDeque<Denial>);

/// A denial, or several of a key by a limit within a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    /// When; of several the first.
    pub(crate) at_ms: u64,
    /// The key, as the caller named it.
    pub(crate) key: Box<str>,
    /// The limit that denied, within the policy; none for a limit that is part of the request.
    pub(crate) limit: Option<Name>,
    /// The units that were requested; of several denials the last ones.
    pub(crate) cost: u64,
    /// How long to wait, if waiting helps; of several the last one.
    pub(crate) retry_after_ms: Option<u64>,
    /// How many.
    pub(crate) times: u64,
}

impl Denials {
    pub(super) fn add(&mut self, denial: Denial) {
        let mut newest = self.0.iter_mut().rev().take(SEARCHED);
        if let Some(same) = newest.find(|before| before.is_same(&denial)) {
            same.times = same.times.saturating_add(denial.times);
            (same.cost, same.retry_after_ms) = (denial.cost, denial.retry_after_ms);
            return;
        }
        if self.0.len() == DENIALS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(denial);
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Denial> {
        self.0.iter().rev()
    }
}

impl Denial {
    fn is_same(&self, later: &Self) -> bool {
        let is_near = later.at_ms.saturating_sub(self.at_ms) < TOGETHER_MS;
        is_near && self.key == later.key && self.limit == later.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(at_ms: u64, key: &str) -> Denial {
        let (key, limit) = (key.into(), None);
        Denial { at_ms, key, limit, cost: 1, retry_after_ms: Some(at_ms), times: 1 }
    }

    #[test]
    fn denials_of_a_key_within_a_second_are_one() {
        let mut denials = Denials::default();
        for at_ms in [0, 400, 999, 1_000] {
            denials.add(denial(at_ms, "a"));
            denials.add(denial(at_ms, "b"));
        }
        let kept = denials.newest_first().map(|one| (&*one.key, one.at_ms, one.times));
        assert!(kept.eq([("b", 1_000, 1), ("a", 1_000, 1), ("b", 0, 3), ("a", 0, 3)]));
        let waits: Vec<_> = denials.newest_first().map(|one| one.retry_after_ms).collect();
        assert_eq!(waits, [1_000, 1_000, 999, 999].map(Some));
    }

    #[test]
    fn the_ring_keeps_the_newest() {
        let mut denials = Denials::default();
        for at_ms in 0..1_000 {
            denials.add(denial(at_ms, &at_ms.to_string()));
        }
        let kept: Vec<u64> = denials.newest_first().map(|one| one.at_ms).collect();
        assert_eq!(kept.len(), DENIALS_MAX);
        assert!(kept.into_iter().eq((744..1_000).rev()));
    }
}
