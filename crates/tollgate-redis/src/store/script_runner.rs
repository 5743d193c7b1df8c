//! Runs scripts on the server: loads those that it lacks, and repeats those that it could
//! not run.
//!
//! This is the only place where a call is repeated. `NOSCRIPT` and `TRYAGAIN` are answers of a
//! server that did not run the call. After `TRYAGAIN` (a slot is being moved and the keys of the
//! call are on two nodes) the call is repeated as often as [`Retries`] say, except for single
//! charges that share a call: their keys are sent alone instead
//! ([`batch_decode`](super::batch_decode)).

use core::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::store::{CallContext, CallPermit, Jitter, Retries};
use tollgate_core::{Clock, MaybeSend, Micros, Result, sleep_until};

use crate::error_reply::is_try_again;
use crate::layout::KeyLayout;
use crate::script::Scripts;
use crate::slot::slot_of;
use crate::transport::{Call, Reply, Sharing, Transport};

/// The transport, and what all calls share.
pub(super) struct ScriptRunner<T> {
    pub(super) transport: T,
    pub(super) scripts: Scripts,
    pub(super) layout: KeyLayout,
    pub(super) retries: Retries,
    clock: Box<dyn Clock>,
    jitter: Jitter,
    trips: AtomicU64,
}

impl<T: Transport> ScriptRunner<T> {
    pub(super) fn new(
        transport: T,
        (layout, retries): (KeyLayout, Retries),
        clock: Box<dyn Clock>,
    ) -> Self {
        let (scripts, jitter, trips) = Default::default();
        Self { transport, scripts, layout, retries, clock, jitter, trips }
    }

    /// The clock that measures waits.
    pub(super) fn now(&self) -> Micros {
        self.clock.now()
    }

    /// Round trips to the server so far.
    pub(super) fn trips(&self) -> u64 {
        self.trips.load(Ordering::Relaxed)
    }

    /// The slot of a name, where slots matter.
    pub(super) fn slot(&self, name: &str) -> Option<u16> {
        self.has_slots().then(|| slot_of(name.as_bytes()))
    }

    /// Whether only keys of one slot may share a call.
    pub(super) fn has_slots(&self) -> bool {
        self.transport.sharing() == Sharing::SameSlot
    }

    /// Runs a call whose keys belong together, and which may charge them. It is repeated while
    /// `may_repeat`.
    pub(super) async fn run(
        &self,
        call: &Call,
        cx: CallContext<'_>,
        may_repeat: impl Fn() -> bool,
    ) -> Result<Reply> {
        let mut reply = self.send(call, cx).await;
        let mut attempt = 1;
        while is_try_again(&reply) {
            // Nothing was charged, and the server answered.
            cx.lost_race();
            if self.retries.is_exhausted(attempt) {
                break;
            }
            self.pause(attempt).await;
            if !may_repeat() {
                break;
            }
            reply = self.send(call, cx).await;
            attempt += 1;
        }
        reply
    }

    /// Waits before a call is repeated for the `attempt`th time.
    async fn pause(&self, attempt: u32) {
        let wait = self.retries.wait(attempt, self.jitter.next());
        sleep_until(&*self.clock, self.clock.now().saturating_add(wait)).await;
    }

    /// Sends a call once the transport accepts one more, and records in `cx` when it is sent.
    pub(super) async fn send(&self, call: &Call, cx: CallContext<'_>) -> Result<Reply> {
        let permit = match self.transport.call_limit() {
            // Boxed, as all that is rare: a future that waits for a reply would hold it all the
            // time.
            Some(limit) => Some(Box::pin(limit.acquire_for(cx)).await?),
            None => None,
        };
        let reply = self.send_now(call, cx).await;
        if reply.is_ok() {
            permit.iter().for_each(CallPermit::answered);
        }
        reply
    }

    /// Sends a call; with the text of its script if the server lacks it.
    pub(super) async fn send_now(&self, call: &Call, cx: CallContext<'_>) -> Result<Reply> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        let reply = self.transport.send_recorded(call, cx).await;
        if !is_unknown(&reply) {
            return reply;
        }
        self.trips.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { self.transport.send_recorded(&call.with_text(), cx).await }).await
    }

    /// Waits until the transport accepts one more call, for several calls in one round trip.
    /// `others_served` runs if another call is answered meanwhile.
    pub(super) async fn permit(&self, others_served: impl FnMut()) -> Option<CallPermit<'_>> {
        Some(self.transport.call_limit()?.acquire(others_served).await)
    }

    /// Sends several calls in one round trip, and hands over each reply as soon as it is there.
    pub(super) async fn send_all(
        &self,
        calls: &[Call],
        mut replied: impl FnMut(usize, Result<Reply>) + MaybeSend,
    ) {
        let mut unknown = Vec::new();
        self.trips.fetch_add(1, Ordering::Relaxed);
        let first = |index, reply| match is_unknown(&reply) {
            true => unknown.push(index),
            false => replied(index, reply),
        };
        self.transport.send_all(calls, first).await;
        if unknown.is_empty() {
            return;
        }
        let (indices, again): (Vec<usize>, Vec<Call>) = unknown
            .into_iter()
            .filter_map(|index| Some((index, calls.get(index)?.with_text())))
            .unzip();
        self.trips.fetch_add(1, Ordering::Relaxed);
        let second = |place: usize, reply: Result<Reply>| {
            if let Some(index) = indices.get(place) {
                replied(*index, reply);
            }
        };
        self.transport.send_all(&again, second).await;
    }
}

/// Whether the server lacks the script: after a restart, a failover or SCRIPT FLUSH.
fn is_unknown(reply: &Result<Reply>) -> bool {
    matches!(reply, Ok(Reply::Error(text)) if text.starts_with("NOSCRIPT"))
}
