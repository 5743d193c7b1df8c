//! A connection for one caller alone: what `WATCH` needs, since it belongs to the connection.

use std::sync::Arc;

use tollgate_core::{Code, Error, Result};

use super::node::Node;
use super::wire::Wire;
use crate::transport::Reply;

/// A connection of one's own. It goes back to the client when it is dropped with nothing under way.
pub struct Session {
    /// Absent once a command was not answered.
    wire: Option<Wire>,
    node: Arc<Node>,
    /// Told when the session fails or its server says that it does not serve the keys.
    tell: Option<Box<dyn Fn() + Send + Sync>>,
    /// Something of the caller's may be left on the server's side: watched keys, an open `MULTI`.
    is_watching: bool,
}

impl Session {
    pub(super) const fn new(wire: Wire, node: Arc<Node>) -> Self {
        Self { wire: Some(wire), node, tell: None, is_watching: false }
    }

    /// The node at the other end.
    pub(super) const fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Tells somebody about failures.
    pub(super) fn told(mut self, tell: impl Fn() + Send + Sync + 'static) -> Self {
        self.tell = Some(Box::new(tell));
        self
    }

    /// Sends one command and waits for its reply. An error reply is a reply.
    ///
    /// # Errors
    /// When there was no reply: then nobody knows whether the command was run, and the session is
    /// of no use any more.
    pub async fn command(&mut self, words: &[&[u8]]) -> Result<Reply> {
        let mut replies = self.commands(&[words]).await?;
        replies.pop().ok_or_else(ended)
    }

    /// Sends several commands in one round trip and waits for all replies.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub async fn commands(&mut self, commands: &[&[&[u8]]]) -> Result<Vec<Reply>> {
        // Taken out while replies are missing: a future that is dropped in between leaves none.
        let mut wire = self.wire.take().ok_or_else(|| ended().not_sent())?;
        for words in commands {
            self.is_watching = leaves_watching(words, self.is_watching);
        }
        let patience = self.node.target().reply_timeout();
        let replies = wire.exchange(commands, patience).await.inspect_err(|_| self.report())?;
        if replies.iter().any(|reply| matches!(reply, Reply::Error(_))) {
            // It is not certain what was left behind, nor that the server still serves.
            self.is_watching = true;
            self.report();
        }
        self.wire = Some(wire);
        Ok(replies)
    }

    fn report(&self) {
        if let Some(tell) = &self.tell {
            tell();
        }
    }
}

impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session").field("is_watching", &self.is_watching).finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(mut wire) = self.wire.take().filter(|_| !self.is_watching)
            && wire.is_quiet()
        {
            self.node.keep(wire);
        }
    }
}

/// Whether anything is left on the server's side after a command.
fn leaves_watching(words: &[&[u8]], before: bool) -> bool {
    let verb = words.first().copied().unwrap_or_default();
    let is = |name: &str| verb.eq_ignore_ascii_case(name.as_bytes());
    let begins =
        ["WATCH", "MULTI", "SUBSCRIBE", "PSUBSCRIBE", "MONITOR", "SELECT", "AUTH", "HELLO"];
    match before {
        false => begins.into_iter().any(is),
        true => !["EXEC", "UNWATCH", "DISCARD"].into_iter().any(is),
    }
}

fn ended() -> Error {
    Error::new(Code::StoreUnavailable, "the session with Redis has ended")
}
