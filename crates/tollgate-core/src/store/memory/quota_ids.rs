//! Which quotas the tags in the lines stand for.
//!
//! Only read when a quota has changed. Callers may bring quotas of their own, so the list is
//! bounded; a state whose quota is not on it is carried over as the largest debt, never as none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use crate::rule::Rule;
use crate::state::QuotaId;

/// How many quotas are remembered.
const QUOTAS_MAX: usize = 4_096;

/// How many tags are known without a lock.
const RECENT: usize = 64;

#[derive(Debug)]
pub(super) struct QuotaIds {
    known: RwLock<HashMap<u64, QuotaId>>,
    /// Tags that are in `known` for sure: nearly every insertion stops here.
    recent: [AtomicU64; RECENT],
}

impl Default for QuotaIds {
    fn default() -> Self {
        Self { known: RwLock::default(), recent: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl QuotaIds {
    /// Remembers the quota of a rule, if there is room.
    pub(super) fn note(&self, rule: &Rule) {
        let tag = rule.quota_tag();
        #[expect(clippy::cast_possible_truncation, reason = "any bits of the tag will do")]
        let recent = self.recent.get(tag as usize % RECENT);
        if recent.is_some_and(|recent| recent.load(Relaxed) == tag) {
            return;
        }
        if (self.of(tag).is_some() || self.learn(tag, rule))
            && let Some(recent) = recent
        {
            recent.store(tag, Relaxed);
        }
    }

    /// Whether there was room for one more.
    #[cold]
    fn learn(&self, tag: u64, rule: &Rule) -> bool {
        // Once full it stays full, and callers may bring new quotas without end: check under the
        // shared lock.
        if self.known.read().unwrap_or_else(PoisonError::into_inner).len() >= QUOTAS_MAX {
            return false;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = known.len() < QUOTAS_MAX || known.contains_key(&tag);
        if has_room {
            known.insert(tag, rule.quota_id());
        }
        has_room
    }

    pub(super) fn of(&self, tag: u64) -> Option<QuotaId> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(&tag).copied()
    }
}
