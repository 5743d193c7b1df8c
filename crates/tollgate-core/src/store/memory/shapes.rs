//! Which quotas the tags in the lines stand for.
//!
//! Only asked when a quota has changed. Callers may bring quotas of their own, so the list is
//! bounded; a state whose quota is not on it is carried over as the largest debt, never as none.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::rule::Rule;
use crate::state::Shape;

/// How many quotas are remembered.
const SHAPES_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct Shapes(RwLock<HashMap<u64, Shape>>);

impl Shapes {
    /// Remembers the quota of a rule, if there is room.
    pub(super) fn note(&self, rule: &Rule) {
        let tag = rule.shape_tag();
        if self.of(tag).is_none() {
            let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if known.len() < SHAPES_MAX {
                known.insert(tag, rule.shape());
            }
        }
    }

    pub(super) fn of(&self, tag: u64) -> Option<Shape> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&tag).copied()
    }
}
