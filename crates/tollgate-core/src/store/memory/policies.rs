//! What the store keeps for each policy: a table, a list of quotas, and request ids.
//!
//! Nothing of it is shared between policies but the budget of bytes, so what the callers of one
//! policy do changes nothing for the keys of another.

use std::sync::{Arc, OnceLock};

use super::bounds::Bounds;
use super::budget::{Budget, Share};
use super::namespace::NAMESPACES_MAX;
use super::quota_ids::QuotaIds;
use super::records::Records;
use super::table::Table;
use crate::key::Name;
use crate::limit::Limit;

/// How many numbers there are: a power of two, so that the rest of a number costs no division.
const NUMBERS: usize = NAMESPACES_MAX + 1;

/// The states of one policy.
#[derive(Debug)]
pub(super) struct PolicyStates {
    /// Locks are taken in the order of these numbers.
    pub(super) number: usize,
    pub(super) prefix: Name,
    pub(super) policy: Name,
    pub(super) table: Table,
    pub(super) quota_ids: QuotaIds,
    pub(super) records: Records,
}

/// What the memory store keeps for one policy, and its bounds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PolicyUsage {
    /// The prefix of the keys.
    pub prefix: Name,
    /// The policy.
    pub policy: Name,
    /// The keys that are held, expired ones that were not replaced yet among them.
    pub keys: usize,
    /// The bound on them.
    pub max_keys: usize,
    /// The bytes of lines, long states and request ids.
    pub bytes: usize,
    /// How often the bound of bytes refused more lines or a long state.
    pub memory_refusals: u64,
    /// The request ids that are kept; a long record counts as several.
    pub request_ids: usize,
    /// The bound on them.
    pub max_request_ids: usize,
    /// How many request ids were forgotten before they expired.
    pub forgotten_request_ids: u64,
}

impl PolicyUsage {
    /// Whether newcomers have to take the place of other keys.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.keys >= self.max_keys
    }
}

impl PolicyStates {
    pub(super) fn usage(&self) -> PolicyUsage {
        PolicyUsage {
            prefix: self.prefix.clone(),
            policy: self.policy.clone(),
            keys: self.table.used(),
            max_keys: self.table.max_keys(),
            bytes: self.table.share.used() + self.records.bytes(),
            memory_refusals: self.table.share.refusals(),
            request_ids: self.records.held(),
            max_request_ids: self.records.max(),
            forgotten_request_ids: self.records.forgotten(),
        }
    }
}

/// The states of all policies, by the number of their namespace.
#[derive(Debug)]
pub(super) struct AllStates {
    /// The last is shared by the policies that have no number of their own.
    by_number: Box<[OnceLock<Box<PolicyStates>>; NUMBERS]>,
    budget: Arc<Budget>,
    /// For policies that set none.
    defaults: Bounds,
}

impl AllStates {
    pub(super) fn new(budget: Arc<Budget>, defaults: Bounds) -> Self {
        let by_number = Box::new([const { OnceLock::new() }; NUMBERS]);
        Self { by_number, budget, defaults }
    }

    /// The states of the policy of a limit; made when the first key comes.
    pub(super) fn of(&self, limit: &Limit) -> &PolicyStates {
        let number = limit.scope().number();
        let [first, ..] = &*self.by_number;
        let states = self.by_number.get(number % NUMBERS).unwrap_or(first);
        states.get_or_init(|| Box::new(self.make(number, limit)))
    }

    /// The states of a policy, if it has any.
    #[inline(always)]
    pub(super) fn known(&self, number: usize) -> Option<&PolicyStates> {
        self.by_number.get(number % NUMBERS)?.get().map(|states| &**states)
    }

    /// The states of every policy that has any.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PolicyStates> {
        self.by_number.iter().filter_map(OnceLock::get).map(|states| &**states)
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    pub(super) fn defaults(&self) -> &Bounds {
        &self.defaults
    }

    fn make(&self, number: usize, limit: &Limit) -> PolicyStates {
        let bounds = limit.bounds().or(&self.defaults);
        PolicyStates {
            number,
            prefix: limit.prefix().clone(),
            policy: limit.policy().clone(),
            table: Table::new(&bounds, Share::of(&self.budget)),
            quota_ids: QuotaIds::default(),
            records: Records::new(&bounds, Share::of(&self.budget)),
        }
    }
}
