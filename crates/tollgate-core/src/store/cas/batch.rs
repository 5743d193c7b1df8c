//! Many admissions at once: as few swaps as the backend allows, side by side.
//!
//! Where a swap writes several keys, adjacent admissions share one, up to the number of keys
//! the backend takes. Where it writes one, or several at a higher price, an admission shares the
//! swap of the last one before it on its key. The groups run side by side inside of the caller's
//! future, a window at a time; they join the queues of their keys in the order of the batch, and
//! that is what keeps admissions on one key in order. When the deadline expires each group records
//! its own facts: some may have lost races, some may have had no answer.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::{HashMap, HashSet};

use super::layout::{Item, Layout};
use super::versioned::Versioned;
use super::{BatchResults, CallContext, Cas};
use crate::charge::Admission;
use crate::store::CallFacts;

/// Groups under way at once. A wake-up polls all of them, so more would cost more than it gains.
const WINDOW: usize = 32;

impl<V: Versioned + 'static> Cas<V> {
    pub(super) async fn decide_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let at = cx.time();
        let mut accepted = Vec::with_capacity(batch.len());
        for (index, admission) in batch.iter().enumerate() {
            match self.check(admission, at) {
                Ok(()) => accepted.push((index, Item { admission: *admission, at })),
                Err(error) => results.set(index, Err(error)),
            }
        }
        let groups = self.groups(&accepted);
        run_side_by_side(groups.iter().map(|group| self.decide_group(group, results, cx))).await;
    }

    async fn decide_group(
        &self,
        group: &[(usize, Item<'_>)],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let contexts = group.iter().map(|(index, _)| results.context(*index, cx)).collect();
        let shared = SharedFacts { facts: CallFacts::new(), contexts };
        let items: Vec<Item<'_>> = group.iter().map(|(_, item)| *item).collect();
        let decided = self.decide(&items, cx.with_facts(&shared.facts)).await;
        let indices = group.iter().map(|(index, _)| *index);
        match decided {
            Ok(decided) => {
                indices.zip(decided).for_each(|(index, result)| results.set(index, result));
            }
            Err(error) => indices.for_each(|index| results.set(index, Err(error.clone()))),
        }
    }

    /// Items that share a swap, in the order of the batch.
    fn groups<'a>(&self, accepted: &[(usize, Item<'a>)]) -> Vec<Vec<(usize, Item<'a>)>> {
        let capability = self.backend().capability();
        let max_keys = usize::try_from(capability.keys_per_swap).unwrap_or(usize::MAX);
        let mut groups: Vec<Vec<(usize, Item<'a>)>> = Vec::new();
        let mut group_of: HashMap<String, usize> = HashMap::new();
        let mut names: HashSet<String> = HashSet::new();
        for &(index, item) in accepted {
            let layout = Layout::of(core::slice::from_ref(&item), !capability.is_multi_key());
            let own = layout.names().into_iter().map(str::to_owned);
            let own: Vec<String> = own.collect();
            let group = if capability.is_multi_key() && capability.joint_batches {
                let added = own.iter().filter(|name| !names.contains(*name)).count();
                if names.len() + added > max_keys {
                    names.clear();
                    groups.push(Vec::new());
                }
                names.extend(own);
                groups.len().saturating_sub(1)
            } else {
                // One that needs several keys brings them all, so it begins a group of its own;
                // one that comes later on one of them comes after it.
                let joined = match own.as_slice() {
                    [name] => group_of.get(name).copied(),
                    _ => None,
                };
                let group = joined.unwrap_or(groups.len());
                group_of.extend(own.into_iter().map(|name| (name, group)));
                group
            };
            if group >= groups.len() {
                groups.push(Vec::new());
            }
            if let Some(group) = groups.get_mut(group) {
                group.push((index, item));
            }
        }
        groups
    }
}

/// What happens to a group happens to each of its admissions.
struct SharedFacts<'a> {
    facts: CallFacts,
    contexts: Vec<CallContext<'a>>,
}

impl Drop for SharedFacts<'_> {
    fn drop(&mut self) {
        self.contexts.iter().for_each(|cx| cx.merge(&self.facts));
    }
}

/// Runs futures side by side, a window at a time, starting them in order.
async fn run_side_by_side<F: Future<Output = ()>>(mut futures: impl Iterator<Item = F>) {
    let mut window: Vec<Option<Pin<Box<F>>>> = Vec::new();
    window.resize_with(WINDOW, || None);
    poll_fn(|context| {
        let mut is_done = true;
        for slot in &mut window {
            is_done &= advance(slot, &mut futures, context);
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Polls the future of a slot, and starts the next ones as long as they finish. Whether all are
/// done.
fn advance<F: Future<Output = ()>>(
    slot: &mut Option<Pin<Box<F>>>,
    waiting: &mut impl Iterator<Item = F>,
    context: &mut Context<'_>,
) -> bool {
    loop {
        if slot.is_none() {
            *slot = waiting.next().map(Box::pin);
        }
        let Some(future) = slot else { return true };
        if future.as_mut().poll(context).is_pending() {
            return false;
        }
        *slot = None;
    }
}
