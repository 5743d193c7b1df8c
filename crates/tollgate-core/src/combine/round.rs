//! A round: waiters that are decided together, and every way for it to end.

use std::sync::{Arc, PoisonError};

use super::combiner::fail_all;
use super::fair;
use super::sync::Mutex;
use super::waiter::Waiter;
use super::{Combiner, Reply};
use crate::error::{Code, Error};
use crate::store::{Owner, Retries};

/// Where the waiters of a round come from and go back to. Implemented by the queues of this module.
pub trait Queues<J, R> {
    /// Names a queue, or the queues of one waiter.
    type Queue: Clone;

    #[doc(hidden)]
    fn round_max(&self) -> usize;
    /// Rounds that were answered so far.
    #[doc(hidden)]
    fn answered(&self, queue: &Self::Queue) -> u64;
    #[doc(hidden)]
    fn count_answered(&self, queue: &Self::Queue);
    /// Takes those that wait and may join a round.
    #[doc(hidden)]
    fn take(&self, queue: &Self::Queue, max: usize) -> Vec<Arc<Waiter<J, R>>>;
    /// Puts waiters back to the front of their queue, as far as they still wait.
    #[doc(hidden)]
    fn put_back(&self, queue: &Self::Queue, waiters: Vec<Arc<Waiter<J, R>>>);
    /// Begins a round if this waiter may lead one now.
    #[doc(hidden)]
    fn lead(
        &self,
        queue: &Self::Queue,
        waiter: &Arc<Waiter<J, R>>,
    ) -> Option<Vec<Arc<Waiter<J, R>>>>;
    /// Ends a round of this size. The first waiter may lead the next one.
    #[doc(hidden)]
    fn end(&self, queue: &Self::Queue, size: usize);
    /// A waiter was cancelled before it was answered.
    #[doc(hidden)]
    fn cancelled(&self, queue: &Self::Queue, waiter: &Arc<Waiter<J, R>>);
}

/// Waiters that are decided together, in order.
///
/// A round that is dropped leaves no waiter without an answer: before it was sent, its waiters go
/// back to the front of their queue; after that, they are answered that the outcome is unknown.
pub struct Round<J, R: Reply, Q: Queues<J, R> = Combiner<J, R>> {
    pub(super) queues: Arc<Q>,
    pub(super) queue: Q::Queue,
    pub(super) members: Vec<Arc<Waiter<J, R>>>,
    is_sent: bool,
    /// All that ever were members, if a caller drives the round.
    pub(super) roster: Option<Arc<Roster<J, R>>>,
}

impl<J, R: Reply, Q: Queues<J, R>> Round<J, R, Q> {
    pub(super) fn new(queues: Arc<Q>, queue: Q::Queue, members: Vec<Arc<Waiter<J, R>>>) -> Self {
        Self { queues, queue, members, is_sent: false, roster: None }
    }

    /// The jobs, in order.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &J> + Clone {
        self.members.iter().map(|member| member.job())
    }

    /// How many waiters it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it has no waiters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Drops waiters that were cancelled or answered. [`Round::mark_sent`] does it as well.
    pub fn drop_cancelled(&mut self) {
        self.members.retain(|member| member.is_waiting());
    }

    /// Adds those that have joined the queue since, behind the others, up to the bound of a round.
    /// Only before it is sent.
    pub fn take_late_arrivals(&mut self) {
        let room = self.queues.round_max().saturating_sub(self.members.len());
        let is_shared = self.members.first().is_none_or(|first| first.shares());
        if self.is_sent || room == 0 || !is_shared {
            return;
        }
        let late = self.queues.take(&self.queue, room);
        if let Some(roster) = &self.roster {
            roster.add(&late);
        }
        self.members.extend(late);
    }

    /// From here on a cancelled waiter may be charged. Waiters that were cancelled before are
    /// dropped: make what is sent from the jobs that are left.
    pub fn mark_sent(&mut self) {
        self.members.retain(|member| member.mark_sent());
        self.is_sent = true;
    }

    /// Nothing was sent after all.
    pub fn mark_not_sent(&mut self) {
        self.members.iter().for_each(|member| member.mark_not_sent());
        self.is_sent = false;
    }

    /// The backend has answered something about this round that decides none of its waiters, such
    /// as a redirect.
    pub fn count_answered(&self) {
        self.queues.count_answered(&self.queue);
    }

    /// The backend has answered that the round lost a race, or reported a lock timeout: nothing was
    /// charged. Waiters that may not try again are answered with `conflict_exhausted`. Returns how
    /// many races the others have lost, for the back-off; 0 if none is left.
    pub fn lost_race(&mut self, retries: &Retries) -> u32 {
        self.is_sent = false;
        self.count_answered();
        let mut most = 0;
        self.members.retain(|member| {
            let Some(losses) = member.lose() else { return false };
            if retries.is_exhausted(losses) {
                member.answer(R::failed(exhausted()));
                return false;
            }
            most = most.max(losses);
            true
        });
        most
    }

    /// The backend has reported that other writers hold the keys: nothing was charged, and the
    /// waiters go on waiting. If their deadline expires meanwhile, that is contention.
    pub fn mark_contended(&self) {
        self.members.iter().for_each(|member| member.mark_contended());
    }

    /// Takes the waiters whose jobs satisfy `is_taken`, which sees the jobs in order, into a round
    /// of their own. Only before it is sent.
    #[must_use]
    pub fn split(&mut self, mut is_taken: impl FnMut(&J) -> bool) -> Self {
        let members = core::mem::take(&mut self.members);
        let (taken, rest) = members.into_iter().partition(|member| is_taken(member.job()));
        self.members = rest;
        Self::new(Arc::clone(&self.queues), self.queue.clone(), taken)
    }

    /// Keeps this many waiters if there are more, shared evenly by policies and then by keys; every
    /// policy keeps one at least. The others go back to the front of their queue. Only for rounds
    /// of a worker, before they are sent.
    pub fn keep_fairly(&mut self, places: usize, owner: impl Fn(&J) -> Owner) {
        if self.members.len() <= places || self.is_sent {
            return;
        }
        let owners: Vec<Owner> = self.jobs().map(owner).collect();
        let mut is_chosen = fair::choose(&owners, places).into_iter();
        let members = core::mem::take(&mut self.members).into_iter();
        let (kept, others) = members.partition(|_| is_chosen.next() == Some(true));
        self.members = kept;
        self.queues.put_back(&self.queue, others);
    }

    /// Answers waiters for which an attempt would come too late, if contention has delayed them:
    /// they lost a race, or others were served since they joined. Nothing was charged. Waiters that
    /// were not delayed stay: if their deadline expires, the backend is too slow.
    pub fn refuse_contended(&mut self, mut is_late: impl FnMut(&J) -> bool) {
        let answered = self.queues.answered(&self.queue);
        self.members.retain(|member| {
            let delayed = if is_late(member.job()) { member.delayed(answered) } else { None };
            delayed.map(|error| member.answer(R::failed(error))).is_none()
        });
    }

    /// Answers one waiter, by its place in [`Round::jobs`]. It stays in its place. Returns whether
    /// it has got the answer: it may have stopped waiting.
    pub fn answer(&self, index: usize, answer: R) -> bool {
        self.members.get(index).is_some_and(|member| member.answer(answer))
    }

    /// Answers all waiters, in order. The round counts as answered if a waiter got its answer: a
    /// backend that answers after the deadlines of all waiters has served none of them.
    pub fn finish(&mut self, answers: impl IntoIterator<Item = R>) {
        self.answer_all(answers);
    }

    /// As [`Round::finish`]; whether a waiter got its answer.
    pub(super) fn answer_all(&mut self, answers: impl IntoIterator<Item = R>) -> bool {
        // Those without an answer are left to the drop of the round.
        let (mut answers, mut is_served) = (answers.into_iter(), false);
        self.members.retain(|member| match answers.next() {
            Some(answer) => {
                is_served |= member.answer(answer);
                false
            }
            None => true,
        });
        if is_served {
            self.count_answered();
        }
        is_served
    }

    /// Answers all waiters with an error. Unless it is an outage, the backend has answered.
    pub fn fail(&mut self, error: &Error) {
        if !error.is_outage() {
            self.count_answered();
        }
        fail_all(core::mem::take(&mut self.members), error);
    }

    /// Answers the waiters whose jobs satisfy `is_failed` with an error, and drops them.
    pub fn fail_where(&mut self, mut is_failed: impl FnMut(&J) -> bool, error: &Error) {
        self.members.retain(|member| {
            let is_failed = is_failed(member.job());
            if is_failed {
                member.answer(R::failed(error.clone()));
            }
            !is_failed
        });
    }

    /// Adds the waiters of a later round of the same queue behind its own. Neither may have been
    /// sent.
    pub fn append(&mut self, mut later: Self) {
        self.members.append(&mut later.members);
    }
}

impl<J, R: Reply, Q: Queues<J, R>> Drop for Round<J, R, Q> {
    fn drop(&mut self) {
        if self.members.is_empty() {
            return;
        }
        let members = core::mem::take(&mut self.members);
        if self.is_sent {
            fail_all(members, &unknown());
        } else {
            self.queues.put_back(&self.queue, members);
        }
    }
}

impl<J, R: Reply, Q: Queues<J, R>> core::fmt::Debug for Round<J, R, Q> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Round")
            .field("members", &self.members.len())
            .field("is_sent", &self.is_sent)
            .finish_non_exhaustive()
    }
}

/// The members of a round, for the caller that drives it: one of them drives on if the caller is
/// cancelled.
pub(super) struct Roster<J, R>(pub(super) Mutex<Vec<Arc<Waiter<J, R>>>>);

impl<J, R> Roster<J, R> {
    fn add(&self, members: &[Arc<Waiter<J, R>>]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(members);
    }

    /// Takes a member out.
    pub(super) fn next(&self) -> Option<Arc<Waiter<J, R>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

/// Every attempt lost its race.
fn exhausted() -> Error {
    let message = "other writers held the keys or kept changing them; nothing was charged";
    Error::new(Code::ConflictExhausted, message).not_sent()
}

/// A round ended after it was sent, without an answer.
fn unknown() -> Error {
    let message = "the round of this call ended without an answer; the charge may be spent";
    Error::new(Code::StoreUnavailable, message)
}
