//! `MULTI`, `EXEC` and `DISCARD`, as clients send pipelines: the commands between are queued, and
//! their replies are one array.
//!
//! Nothing is undone, as in Redis. Each command is decided for itself: those of other connections
//! may be decided between two of a transaction.

use tollgate_service::engine::BATCH_MAX;

use super::reply::Reply;
use super::session::Action;

/// The most bytes of queued commands.
const BYTES_MAX: usize = 256 * 1024;

/// The commands since `MULTI`.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    actions: Vec<Action>,
    bytes: usize,
    is_aborted: bool,
}

impl Transaction {
    /// Queues a command of this many bytes; the reply to it. A command that is refused aborts the
    /// transaction.
    pub(super) fn queue(&mut self, action: Action, bytes: usize) -> Reply {
        if let Action::Refused(reply) = action {
            return self.abort(reply);
        }
        if self.is_aborted {
            return Reply::Simple("QUEUED");
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.actions.len() >= BATCH_MAX || self.bytes > BYTES_MAX {
            let accepted = format!(
                "too many commands after MULTI; accepted: up to {BATCH_MAX}, and {BYTES_MAX} bytes"
            );
            return self.abort(Reply::error("ERR", &accepted));
        }
        self.actions.push(action);
        Reply::Simple("QUEUED")
    }

    /// Aborts the transaction: its `EXEC` is an error.
    pub(super) fn abort(&mut self, reply: Reply) -> Reply {
        *self = Self { is_aborted: true, ..Self::default() };
        reply
    }

    /// The queued commands, or the error of `EXEC`.
    pub(super) fn into_actions(self) -> Result<Vec<Action>, Reply> {
        if self.is_aborted {
            let why = "Transaction discarded because of previous errors.";
            return Err(Reply::error("EXECABORT", why));
        }
        Ok(self.actions)
    }
}
