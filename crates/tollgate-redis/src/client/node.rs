//! One server, and the connection that all callers share.

use std::sync::Arc;

use tollgate_core::Result;
use tollgate_core::store::{Endpoint, LastAnswer};

use super::exclusive::write_command;
use super::host::Host;
use super::shared::{PendingReplies, SharedConnection, closed};
use super::target::Target;
use crate::transport::{Call, Reply};

/// A server and its connection.
#[derive(Debug)]
pub(super) struct Node {
    endpoint: Endpoint,
    target: Arc<Target>,
    shared: SharedConnection,
}

/// One of several things to send in a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// The next call is meant for this node although its slot has not arrived in full.
    Asking,
    Call(&'a Call),
}

impl Node {
    pub(super) fn new(target: Target, endpoint: Endpoint) -> Arc<Self> {
        let target = Arc::new(target);
        let shared = SharedConnection::new(Arc::clone(&target));
        Arc::new(Self { endpoint, target, shared })
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

    pub(super) fn is_at(&self, host: &Host) -> bool {
        self.target.host() == Some(host)
    }

    /// Its number among the servers of the store.
    pub(super) const fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Its last answer, if that came lately.
    pub(super) fn last_answer(&self) -> Option<LastAnswer> {
        let took = self.shared.last_answer()?;
        let server = self.target.host().map(ToString::to_string);
        Some(LastAnswer::new(server.unwrap_or_else(|| "the master".to_owned()), took))
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn close(&self) {
        self.shared.close();
    }
}
