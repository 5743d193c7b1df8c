//! Many admissions at once: as few swaps as the backend allows, side by side.
//!
//! Where a swap writes several keys, neighbours in the batch share one, up to the number of keys the
//! backend takes. Where it writes one, or several at a higher price, an admission shares the swap of
//! the last one before it on its key. The groups run side by
//! side inside the caller's future, a window at a time; they take their places in the lanes in the
//! order of the batch, and that is what keeps admissions on one key in order. When the time of a batch is
//! up each group answers for itself: some may have met others, some silence.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::task::{Context, Poll};
use std::collections::{HashMap, HashSet};

use super::layout::{Item, Layout};
use super::versioned::Versioned;
use super::{Cas, Evidence, TimeSource};
use crate::charge::Admission;
use crate::error::{Code, Error, Result};
use crate::store::patience::{is_answer, is_over, or_cut_off, unbegun};

/// Groups under way at once. A wake-up polls all of them, so more would cost more than it gains.
const WINDOW: usize = 32;

impl<V: Versioned> Cas<V> {
    pub(super) async fn decide_many(
        &self,
        batch: &[Admission<'_>],
        at: TimeSource,
    ) -> Vec<Result<Evidence>> {
        let mut refused = HashMap::new();
        let mut accepted = Vec::with_capacity(batch.len());
        for (index, admission) in batch.iter().enumerate() {
            match self.check(admission, at) {
                Ok(()) => accepted.push((index, Item { admission: *admission, at })),
                Err(error) => drop(refused.insert(index, error)),
            }
        }
        let groups = self.groups(&accepted);
        // Whether somebody was answered, and whether in time.
        let (is_heard, is_served) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let decisions = groups.iter().map(|group| async move {
            // Nothing is begun any more when the time is up.
            if is_over() {
                return Err(unbegun(is_heard.load(Relaxed)));
            }
            let items: Vec<Item<'_>> = group.iter().map(|(_, item)| *item).collect();
            let decided = or_cut_off(pin!(self.decide(&items)), || is_served.load(Relaxed)).await;
            is_heard.fetch_or(is_answer(&decided), Relaxed);
            is_served.fetch_or(is_answer(&decided) && !is_over(), Relaxed);
            decided
        });
        let decided = join_in_order(decisions).await;
        let mut outcomes: HashMap<usize, Result<Evidence>> = HashMap::with_capacity(batch.len());
        outcomes.extend(refused.into_iter().map(|(index, error)| (index, Err(error))));
        for (group, decided) in groups.iter().zip(decided) {
            let indices = group.iter().map(|(index, _)| *index);
            match decided {
                Ok(decided) => outcomes.extend(indices.zip(decided)),
                Err(error) => outcomes.extend(indices.map(|index| (index, Err(error.clone())))),
            }
        }
        let in_order = (0..batch.len()).map(|index| outcomes.remove(&index));
        in_order.map(|outcome| outcome.unwrap_or_else(|| Err(lost()))).collect()
    }

    /// Items that share a swap, in the order of the batch.
    fn groups<'a>(&self, accepted: &[(usize, Item<'a>)]) -> Vec<Vec<(usize, Item<'a>)>> {
        let capability = self.backend.capability();
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
                // whoever comes later on one of them comes after it.
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

/// A slot of the window: a future under way, with the position of its output.
type Slot<F> = Option<(usize, Pin<Box<F>>)>;

/// Runs futures side by side, a window at a time, starting them in order.
async fn join_in_order<F: Future>(futures: impl ExactSizeIterator<Item = F>) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = Vec::new();
    outputs.resize_with(futures.len(), || None);
    let mut waiting = futures.enumerate();
    let mut window: Vec<Slot<F>> = Vec::new();
    window.resize_with(WINDOW.min(outputs.len()), || None);
    poll_fn(|context| {
        let mut is_done = true;
        for slot in &mut window {
            is_done &= advance(slot, &mut waiting, &mut outputs, context);
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// Polls the future of a slot, and starts the next ones as long as they finish. Whether all is done.
fn advance<F: Future>(
    slot: &mut Slot<F>,
    waiting: &mut impl Iterator<Item = (usize, F)>,
    outputs: &mut [Option<F::Output>],
    context: &mut Context<'_>,
) -> bool {
    loop {
        if slot.is_none() {
            *slot = waiting.next().map(|(index, future)| (index, Box::pin(future)));
        }
        let Some((index, future)) = slot else {
            return true;
        };
        let Poll::Ready(output) = future.as_mut().poll(context) else {
            return false;
        };
        if let Some(place) = outputs.get_mut(*index) {
            *place = Some(output);
        }
        *slot = None;
    }
}

/// Cannot happen: every item of a batch is in a group or was refused.
fn lost() -> Error {
    Error::new(Code::StoreUnavailable, "an admission of a batch was not decided")
}
