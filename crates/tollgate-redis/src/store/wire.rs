//! The way to the server that all others share: calls whose scripts it may not know, and how often it
//! was asked.

use core::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::Result;

use crate::late::replies_in_time;
use crate::layout::KeyLayout;
use crate::script::Scripts;
use crate::slot::slot_of;
use crate::transport::{Call, Reply, Sharing, Transport};

/// What every way to the server shares.
pub(crate) struct Wire<T> {
    pub(super) transport: T,
    pub(super) scripts: Scripts,
    pub(super) layout: KeyLayout,
    trips: AtomicU64,
}

impl<T: Transport> Wire<T> {
    pub(super) fn new(transport: T, layout: KeyLayout) -> Self {
        Self { transport, scripts: Scripts::default(), layout, trips: AtomicU64::new(0) }
    }

    /// How often the server was asked.
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

    /// Runs a call; sends the whole script if the server does not know it.
    pub(super) async fn run(&self, call: &Call) -> Result<Reply> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        let reply = self.transport.send(call).await?;
        if !is_unknown(&reply) {
            return Ok(reply);
        }
        // Boxed, as all that is rare: whoever waits for a reply would hold it all the time.
        Box::pin(self.run_whole(call)).await
    }

    async fn run_whole(&self, call: &Call) -> Result<Reply> {
        self.trips.fetch_add(1, Ordering::Relaxed);
        self.transport.send(&call.with_text()).await
    }

    /// The same for several calls. What was answered is not lost when the time is up.
    pub(super) async fn run_all(&self, calls: &[Call]) -> Vec<Result<Reply>> {
        if let [call] = calls {
            return vec![self.run(call).await];
        }
        self.trips.fetch_add(1, Ordering::Relaxed);
        let mut replies = self.transport.send_all(calls).await;
        let is_unsettled = |reply: &Result<Reply>| reply.as_ref().is_ok_and(is_unknown);
        let unknown: Vec<usize> = replies
            .iter()
            .enumerate()
            .filter_map(|(index, reply)| is_unsettled(reply).then_some(index))
            .collect();
        if unknown.is_empty() {
            return replies;
        }
        let again: Vec<Call> =
            unknown.iter().filter_map(|index| calls.get(*index).map(Call::with_text)).collect();
        self.trips.fetch_add(1, Ordering::Relaxed);
        let answers = replies_in_time(again.len(), || self.transport.send_all(&again)).await;
        for (index, answer) in unknown.into_iter().zip(answers) {
            if let Some(reply) = replies.get_mut(index) {
                *reply = answer;
            }
        }
        replies
    }
}

/// Whether the server does not know the script: after a restart, a failover or SCRIPT FLUSH.
fn is_unknown(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("NOSCRIPT"))
}
