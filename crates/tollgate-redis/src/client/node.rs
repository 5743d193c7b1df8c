//! One server: the connection that all callers share, and those that one caller has to itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::Result;

use super::exclusive::{ExclusiveConnection, write_command};
use super::host::Host;
use super::shared::{PendingReplies, SharedConnection, closed};
use super::target::Target;
use crate::transport::{Call, Reply};

/// Exclusive connections that are kept for the next caller.
const IDLE_MAX: usize = 16;

/// A server and its connections.
#[derive(Debug)]
pub(super) struct Node {
    target: Arc<Target>,
    shared: SharedConnection,
    idle: Mutex<Vec<ExclusiveConnection>>,
}

/// One of several things to send in a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// The next call is meant for this node although its slot has not arrived in full.
    Asking,
    Call(&'a Call),
}

impl Node {
    pub(super) fn new(target: Target) -> Arc<Self> {
        let target = Arc::new(target);
        let shared = SharedConnection::new(Arc::clone(&target));
        Arc::new(Self { target, shared, idle: Mutex::default() })
    }

    /// Sends one call.
    pub(super) async fn send(&self, call: &Call) -> Result<Reply> {
        let replies = self.send_all([Step::Call(call)].into_iter()).await;
        replies.into_iter().next().unwrap_or_else(|| Err(closed()))
    }

    /// Queues steps at once, in order, with no other between them.
    pub(super) fn send_all<'a>(
        &self,
        steps: impl ExactSizeIterator<Item = Step<'a>>,
    ) -> PendingReplies {
        self.shared.send(steps, |bytes, step| match step {
            Step::Asking => write_command(bytes, &[b"ASKING"]),
            Step::Call(call) => call.encode(bytes),
        })
    }

    /// A connection for one caller, which may return it with [`keep`](Self::keep).
    pub(super) async fn exclusive(&self) -> Result<ExclusiveConnection> {
        loop {
            let idle = self.idle().pop();
            let Some(mut connection) = idle else { return self.target.dial().await };
            if self.target.trusts(connection.age()) && connection.is_quiet() {
                return Ok(connection);
            }
        }
    }

    /// Keeps a connection for the next caller that needs one of its own.
    pub(super) fn keep(&self, connection: ExclusiveConnection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }

    pub(super) fn is_at(&self, host: &Host) -> bool {
        self.target.host() == Some(host)
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn close(&self) {
        self.shared.close();
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<ExclusiveConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
