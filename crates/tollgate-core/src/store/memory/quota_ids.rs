//! Which quotas the tags in the lines of a policy stand for.
//!
//! Only read when a quota has changed. Callers may bring quotas of their own (`CL.THROTTLE`), so
//! the list is bounded; when it is full, quotas that no key uses are removed. A state whose quota
//! is not on it is carried over as the largest debt, never as none.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use super::line::{self, Held};
use super::table::Table;
use crate::rule::Rule;
use crate::state::QuotaId;
use crate::time::Micros;

/// How many quotas are kept.
const QUOTAS_MAX: usize = 4_096;
/// How many tags are known without a lock.
const RECENT: usize = 64;
/// While the list is full, quotas that no key uses are looked for this often at most: that reads
/// the whole table.
const RECLAIM_EVERY: Micros = 1_000_000;

#[derive(Debug)]
pub(super) struct QuotaIds {
    known: RwLock<HashMap<u64, QuotaId>>,
    /// Tags that are in `known`, written under its lock: nearly every insertion stops here.
    recent: [AtomicU64; RECENT],
    /// Not before this instant are unused quotas looked for again.
    next_reclaim: AtomicU64,
}

impl Default for QuotaIds {
    fn default() -> Self {
        Self {
            known: RwLock::default(),
            recent: std::array::from_fn(|_| AtomicU64::new(0)),
            next_reclaim: AtomicU64::new(0),
        }
    }
}

impl QuotaIds {
    /// Remembers the quota of a rule that is about to be used in a line of the table, if there is
    /// room.
    pub(super) fn note(&self, rule: &Rule, table: &Table, at: Micros) {
        let tag = rule.quota_tag();
        if self.recent(tag).is_some_and(|recent| recent.load(Relaxed) == tag) {
            return;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if known.contains_key(&tag) {
            self.set_recent(tag);
            return;
        }
        // A full list is the usual case for callers that bring new quotas without end: check under
        // the shared lock.
        let is_full = known.len() >= QUOTAS_MAX;
        drop(known);
        let next = |next: Micros| (at >= next).then_some(at.saturating_add(RECLAIM_EVERY));
        if !is_full || self.next_reclaim.fetch_update(Relaxed, Relaxed, next).is_ok() {
            self.learn(tag, rule, (table, at));
        }
    }

    #[cold]
    fn learn(&self, tag: u64, rule: &Rule, (table, at): (&Table, Micros)) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= QUOTAS_MAX && !known.contains_key(&tag) {
            self.recent.iter().for_each(|recent| recent.store(0, Relaxed));
            let used = tags_in_use(table, at);
            known.retain(|tag, _| used.contains(tag));
        }
        if known.len() < QUOTAS_MAX {
            known.insert(tag, rule.quota_id());
            self.set_recent(tag);
        }
    }

    pub(super) fn of(&self, tag: u64) -> Option<QuotaId> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(&tag).copied()
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of the tag will do")]
    fn recent(&self, tag: u64) -> Option<&AtomicU64> {
        self.recent.get(tag as usize % RECENT)
    }

    fn set_recent(&self, tag: u64) {
        if let Some(recent) = self.recent(tag) {
            recent.store(tag, Relaxed);
        }
    }
}

/// The tags of all states that mean something at this instant. A line that is held counts with the
/// tag that it has: its holder may be the caller.
fn tags_in_use(table: &Table, at: Micros) -> HashSet<u64> {
    let lines = (0..table.shards()).flat_map(|shard| table.lines_of(shard));
    let used = lines.map(|(_, line)| line).filter(|line| !line::is_unused(line));
    let tag = |line| match Held::try_lock(line) {
        None => Some(line::tag(line)),
        Some(held) => held.content().filter(|content| content.fresh_at() > at).map(|_| held.tag()),
    };
    used.filter_map(tag).collect()
}
