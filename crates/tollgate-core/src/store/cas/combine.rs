//! Read, decide, swap: for one admission, a batch, or everybody who waits on a key.
//!
//! Who leads a lane reads once, runs the steps of those right behind it after its own, swaps once
//! and hands each its own evidence. The first caller goes alone and at once; those who arrive
//! meanwhile form the next round, led by the first of them. No task is spawned: the leader's future
//! does the work, and every way for it to end early is accounted for.
//!
//! - Dropped before the swap was sent (or between attempts): nothing is charged; the followers still
//!   stand in the lane, and leaving it calls the next one.
//! - Dropped while the swap is on its way: the outcome is unknown, so [`InFlight`] answers the followers
//!   with an error. Their charge may be spent, but is never made twice. It is an outage only if the leader
//!   waited in vain until its time was up: anybody can make callers go away.
//! - A follower that was dropped before its round was decided is not charged.
//!
//! When the time of a caller is up, it tells whether others held it up (`patience`): then it has lost
//! races, or has seen others of its lane being served. Whoever gets its turn when most of its time is gone
//! leaves it to the next: else, in a long line, each would send what it cannot wait for, and nobody
//! would be answered although the backend is well.

use core::mem;
use core::pin::pin;
use std::sync::Arc;

use super::bounds::store_full;
use super::draft::{Draft, instant};
use super::lanes::{Called, Job, Ticket, Turn};
use super::layout::{Item, Layout};
use super::retry::{exhausted, held_up, too_late};
use super::versioned::{Snapshot, Versioned};
use super::{Cas, Evidence};
use crate::charge::{Admission, Charge, Operation};
use crate::error::{Code, Error, Result};
use crate::store::patience::{is_answer, is_over, is_scarce, last_words};
use crate::time::{Micros, Now};

/// Admissions in one round, the leader's included: bounds the time a leader works for others.
pub(super) const ROUND_MAX: usize = 1_000;

impl<V: Versioned> Cas<V> {
    /// Decides items that share one swap, in order.
    ///
    /// # Errors
    /// What concerns all of them: the backend failed, or others kept winning the race.
    pub(super) async fn decide(&self, items: &[Item<'_>]) -> Result<Vec<Result<Evidence>>> {
        let layout = Layout::of(items, self.bounds().embeds_records);
        let turn = self.lanes.join(&layout.lanes(), || job_of(items));
        let decided = pin!(async {
            match turn.called().await {
                Called::Answered(answer) => Ok(vec![answer]),
                // An attempt that ends too early would take the round of everybody behind with it.
                Called::Leading if turn.has_waited() && is_scarce() => Err(too_late(turn.ticket())),
                Called::Leading => self.lead(&turn, items, &layout).await,
            }
        });
        let answer = last_words(decided, || held_up(turn.ticket()).map(Err)).await;
        turn.ticket().end();
        answer
    }

    async fn lead(
        &self,
        turn: &Turn<'_>,
        items: &[Item<'_>],
        layout: &Layout,
    ) -> Result<Vec<Result<Evidence>>> {
        let room = if can_lead(items) { ROUND_MAX - 1 } else { 0 };
        loop {
            let crew = Crew { leader: turn.ticket(), followers: turn.followers(room) };
            let attempt = self.attempt(items, layout, &crew).await;
            if is_answer(&attempt) {
                crew.leader.round_ended();
            }
            if let Some(outcomes) = attempt? {
                return Ok(outcomes);
            }
            // Each admission takes part in a bounded number of attempts, whoever leads them.
            for follower in &crew.followers {
                if self.retry.retries.is_exhausted(follower.lose()) {
                    follower.answer(Err(exhausted()));
                }
            }
            let losses = crew.leader.lose();
            if self.retry.retries.is_exhausted(losses) {
                return Err(exhausted());
            }
            let is_told = self.backend.recall(&layout.names()).is_some();
            self.retry.wait(losses, is_told, &*self.clock).await;
        }
    }

    /// One swap, after a read unless what the backend remembers will do. `None` when the race was
    /// lost: then nothing was charged.
    async fn attempt(
        &self,
        items: &[Item<'_>],
        layout: &Layout,
        crew: &Crew<'_>,
    ) -> Result<Option<Vec<Result<Evidence>>>> {
        let mut followers: Vec<&Ticket> = crew.followers.iter().map(Arc::as_ref).collect();
        if let Some(remembered) = self.backend.recall(&layout.names())
            && let Ok(draft) = self.draft(items, layout, &followers, remembered)
            && draft.proves(layout)
        {
            return self.settle(draft, layout, crew.leader, followers).await;
        }
        let snapshot = match self.backend.read(&layout.names()).await {
            Ok(snapshot) => snapshot,
            // A read charges nothing: trying again is safe.
            Err(error) => return Err(tell(&followers, error.not_sent())),
        };
        // Whoever went away during the read is not charged.
        followers.retain(|ticket| ticket.is_waiting());
        match self.draft(items, layout, &followers, snapshot) {
            Ok(draft) => self.settle(draft, layout, crew.leader, followers).await,
            Err(error) => Err(tell(&followers, error)),
        }
    }

    /// Runs the items, and those of the followers after them, over a snapshot.
    fn draft(
        &self,
        items: &[Item<'_>],
        layout: &Layout,
        followers: &[&Ticket],
        snapshot: Snapshot,
    ) -> Result<Draft> {
        let jobs: Vec<&Job> = followers.iter().filter_map(|ticket| ticket.job()).collect();
        let charges: Vec<Charge<'_>> = jobs.iter().map(|job| job.charge()).collect();
        let behind = charges.iter().zip(&jobs).map(|(charge, job)| Item {
            admission: Admission::of(core::slice::from_ref(charge)),
            at: job.at,
        });
        let all: Vec<Item<'_>> = items.iter().copied().chain(behind).collect();
        let mut bounds = self.bounds();
        if !bounds.embeds_records && items.iter().any(|item| item.admission.request_id.is_some()) {
            let now = items.iter().filter_map(|item| instant(item.at, snapshot.clock).ok());
            bounds.room = self.ids.room(now.map(Now::reading).max().unwrap_or_default());
        }
        Draft::make(&all, layout, snapshot, bounds)
    }

    /// Swaps what a draft writes, and hands everybody what it found.
    async fn settle(
        &self,
        draft: Draft,
        layout: &Layout,
        leader: &Ticket,
        followers: Vec<&Ticket>,
    ) -> Result<Option<Vec<Result<Evidence>>>> {
        let swaps = draft.swaps(layout);
        if !swaps.is_empty() {
            let ids: &[Micros] = if self.bounds().embeds_records { &[] } else { &draft.added };
            // Others may have taken the last places since the draft was made.
            if !self.ids.add(ids) {
                return Err(tell(&followers, store_full()));
            }
            let sent = InFlight { leader, followers: followers.clone() };
            let swapped = self.backend.swap(&swaps).await;
            sent.arrived();
            match swapped {
                Ok(true) => {}
                Ok(false) => {
                    self.ids.remove(ids);
                    return Ok(None);
                }
                Err(error) if error.is_not_sent() => {
                    self.ids.remove(ids);
                    return Err(tell(&followers, error));
                }
                Err(error) => return Err(tell(&followers, error)),
            }
        }
        let mut own = draft.outcomes;
        let theirs = own.split_off(own.len().saturating_sub(followers.len()));
        for (follower, outcome) in followers.into_iter().zip(theirs) {
            follower.answer(outcome);
        }
        Ok(Some(own))
    }
}

/// Who takes part in a round.
struct Crew<'t> {
    leader: &'t Ticket,
    followers: Vec<Arc<Ticket>>,
}

/// A swap that was sent and not answered yet: the followers of whoever sent it.
struct InFlight<'t> {
    leader: &'t Ticket,
    followers: Vec<&'t Ticket>,
}

impl InFlight<'_> {
    /// The backend has answered: there is nothing unknown any more.
    fn arrived(mut self) {
        mem::take(&mut self.followers);
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let is_silent = is_over() && !self.leader.has_heard();
        for follower in self.followers.drain(..) {
            let code = if is_silent && !follower.is_held_up() {
                Code::StoreUnavailable
            } else {
                Code::ConflictExhausted
            };
            let message = "the caller that wrote for this one went away; the charge may be spent";
            follower.answer(Err(Error::new(code, message)));
        }
    }
}

/// Whether these items may be decided together with followers: one charge that takes, without a
/// request id.
fn can_lead(items: &[Item<'_>]) -> bool {
    single_take(items).is_some()
}

fn job_of(items: &[Item<'_>]) -> Option<Job> {
    single_take(items).map(|(charge, item)| Job::of(charge, item.at))
}

fn single_take<'i, 'a>(items: &'i [Item<'a>]) -> Option<(&'i Charge<'a>, &'i Item<'a>)> {
    match items {
        [item] if item.admission.request_id.is_none() => match item.admission.charges() {
            [charge] if charge.operation == Operation::Take => Some((charge, item)),
            _ => None,
        },
        _ => None,
    }
}

/// Hands every follower an error of its own, and the leader the original.
fn tell(followers: &[&Ticket], error: Error) -> Error {
    for follower in followers {
        follower.answer(Err(error.clone()));
    }
    error
}
