//! At most a number of calls to a backend at once; further calls wait in order.
//!
//! A transport with a bounded number of connections has one. A store waits here **before** it
//! records that a call was sent and before it makes the request of a round. So a caller that is
//! cancelled while it waits is not charged, and its facts show whether the backend answered other
//! calls meanwhile: contention, not an outage.

use core::fmt;
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{CallContext, CallFacts};
use crate::error::Result;

/// Bounds the calls to a backend that are under way.
///
/// ```
/// use tollgate_core::store::CallLimit;
///
/// # async fn example(limit: &CallLimit) {
/// let permit = limit.acquire(|| println!("another call was answered")).await;
/// // ... send the call and wait for its answer ...
/// permit.answered();
/// # }
/// ```
pub struct CallLimit {
    state: Mutex<State>,
}

struct State {
    /// Above zero only if no call waits.
    free: usize,
    /// Answers of the backend so far.
    answered: u64,
    next_id: u64,
    /// In order of arrival. A call that is not here any more was given a permit.
    waiting: BTreeMap<u64, Option<Waker>>,
    /// Calls below this id were woken by an answer.
    notified: u64,
}

impl CallLimit {
    /// At most this many calls at once, at least one.
    #[must_use]
    pub fn new(calls: usize) -> Self {
        let state = State {
            free: calls.max(1),
            answered: 0,
            next_id: 0,
            waiting: BTreeMap::new(),
            notified: 0,
        };
        Self { state: Mutex::new(state) }
    }

    /// Waits until one more call may be sent. `others_served` runs once if the backend answers
    /// another call meanwhile.
    pub async fn acquire(&self, mut others_served: impl FnMut()) -> CallPermit<'_> {
        let Some(mut queued) = self.join() else { return CallPermit { limit: self } };
        poll_fn(|context| queued.poll(context, &mut others_served)).await
    }

    /// Waits until one more call may be sent, and records the facts of the wait.
    ///
    /// # Errors
    /// `queue_full` or `timeout`, marked as not sent, if the deadline of the call has expired: its
    /// caller waits no longer, so the call must not charge.
    pub async fn acquire_for(&self, cx: CallContext<'_>) -> Result<CallPermit<'_>> {
        let facts = CallFacts::new();
        let own = CallContext::new(cx.time()).with_facts(&facts);
        [cx, own].iter().for_each(CallContext::waiting);
        let others_served = || [cx, own].iter().for_each(CallContext::others_served);
        let permit = self.acquire(others_served).await;
        if cx.time_left() == Some(0) { Err(facts.expired()) } else { Ok(permit) }
    }

    /// Takes a permit, or a place behind the calls that wait.
    fn join(&self) -> Option<QueuedCall<'_>> {
        let mut state = self.lock();
        if state.free > 0 {
            state.free -= 1;
            return None;
        }
        let (id, answered) = (state.next_id, state.answered);
        state.next_id += 1;
        state.waiting.insert(id, None);
        Some(QueuedCall { limit: self, id, answered: Some(answered), has_permit: false })
    }

    fn release(&self) {
        let mut state = self.lock();
        let Some((_, waker)) = state.waiting.pop_first() else {
            state.free += 1;
            return;
        };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Permission for one call at a time. Ends when it is dropped.
#[must_use = "a permit that is dropped permits nothing"]
pub struct CallPermit<'a> {
    limit: &'a CallLimit,
}

impl CallPermit<'_> {
    /// The backend has answered the call. Each waiting call is woken by the first answer only.
    pub fn answered(&self) {
        let mut state = self.limit.lock();
        state.answered += 1;
        let from = state.notified;
        state.notified = state.next_id;
        let wakers: Vec<Waker> =
            state.waiting.range_mut(from..).filter_map(|(_, waker)| waker.take()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        self.limit.release();
    }
}

/// A call that waits.
struct QueuedCall<'a> {
    limit: &'a CallLimit,
    id: u64,
    /// The answers at which it joined, until `others_served` has run.
    answered: Option<u64>,
    has_permit: bool,
}

impl<'a> QueuedCall<'a> {
    fn poll(
        &mut self,
        context: &Context<'_>,
        others_served: &mut impl FnMut(),
    ) -> Poll<CallPermit<'a>> {
        let mut state = self.limit.lock();
        let is_served = self.answered.take_if(|answered| *answered != state.answered).is_some();
        let is_waiting = state.waiting.get_mut(&self.id).map(|waker| match waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        });
        drop(state);
        if is_served {
            others_served();
        }
        if is_waiting.is_some() {
            return Poll::Pending;
        }
        self.has_permit = true;
        Poll::Ready(CallPermit { limit: self.limit })
    }
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        let mut state = self.limit.lock();
        let is_waiting = state.waiting.remove(&self.id).is_some();
        drop(state);
        // It was given a permit that it has not taken.
        if !is_waiting && !self.has_permit {
            self.limit.release();
        }
    }
}

impl fmt::Debug for CallLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("CallLimit")
            .field("free", &state.free)
            .field("waiting", &state.waiting.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CallPermit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallPermit")
    }
}

#[cfg(test)]
mod tests {
    use core::future::Future;
    use core::pin::Pin;

    use super::*;
    use crate::clock::ManualClock;
    use crate::error::Code;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Result<CallPermit<'a>>> + 'a>>;

    fn waiting<'a>(limit: &'a CallLimit, facts: &'a CallFacts) -> Waiting<'a> {
        let mut call: Waiting<'_> =
            Box::pin(limit.acquire_for(CallContext::at(0).with_facts(facts)));
        assert!(poll(&mut call).is_pending());
        call
    }

    fn poll<'a>(call: &mut Waiting<'a>) -> Poll<Result<CallPermit<'a>>> {
        call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn free(limit: &CallLimit) -> CallPermit<'_> {
        match poll(&mut (Box::pin(limit.acquire_for(CallContext::at(0))) as Waiting<'_>)) {
            Poll::Ready(permit) => permit.unwrap(),
            Poll::Pending => panic!("no permit is free"),
        }
    }

    #[test]
    fn permits_are_given_in_order_and_a_cancelled_call_keeps_none() {
        let limit = CallLimit::new(2);
        let facts = CallFacts::new();
        let (first, second) = (free(&limit), free(&limit));
        let mut calls: Vec<Waiting<'_>> = (0..4).map(|_| waiting(&limit, &facts)).collect();
        // The first is cancelled while it waits, the second after it was given a permit.
        drop(calls.remove(0));
        drop(first);
        drop(calls.remove(0));
        let Poll::Ready(Ok(third)) = poll(&mut calls[0]) else { panic!("the next call waits") };
        assert!(poll(&mut calls[1]).is_pending(), "two calls are under way");
        drop((second, third));
        assert!(matches!(poll(&mut calls[1]), Poll::Ready(Ok(_))));
        drop(calls);
        drop((free(&limit), free(&limit)));
        assert_eq!(limit.lock().free, 2);
    }

    #[test]
    fn a_call_that_waits_while_others_are_answered_has_met_contention() {
        let limit = CallLimit::new(1);
        let permit = free(&limit);
        permit.answered();
        let [silent, served, given] = [(); 3].map(|()| CallFacts::new());
        drop(waiting(&limit, &silent));
        let mut given_call = waiting(&limit, &given);
        let mut served_call = waiting(&limit, &served);
        permit.answered();
        drop(permit);
        assert!(poll(&mut served_call).is_pending());
        drop(served_call);
        drop(poll(&mut given_call));
        let codes = [&silent, &served, &given].map(|facts| {
            let error = facts.expired();
            assert!(error.is_not_sent());
            error.code()
        });
        assert_eq!(codes, [Code::Timeout, Code::QueueFull, Code::QueueFull]);
    }
    #[test]
    fn a_call_whose_deadline_has_expired_gets_no_permit() {
        let (limit, clock) = (CallLimit::new(1), ManualClock::at(0));
        let cx = CallContext::at(0).with_deadline(&clock, 100);
        let permit = free(&limit);
        let mut call: Waiting<'_> = Box::pin(limit.acquire_for(cx));
        assert!(poll(&mut call).is_pending());
        permit.answered();
        clock.set(100);
        drop(permit);
        let Poll::Ready(Err(error)) = poll(&mut call) else { panic!("it was given a permit") };
        assert_eq!((error.code(), error.is_not_sent()), (Code::QueueFull, true));
        drop(free(&limit));
    }
}
