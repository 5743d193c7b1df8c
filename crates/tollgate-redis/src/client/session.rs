//! A connection for one caller: what `WATCH` needs, since it belongs to the connection.

use std::sync::Arc;

use tollgate_core::{BoxFuture, Code, Error, Result};

use super::cluster::RedirectSession;
use super::exclusive::ExclusiveConnection;
use super::node::Node;
use super::{Client, Servers};
use crate::slot::slot_of;
use crate::transport::{self, Command, Reply, Sessions};

/// A connection for one caller. It goes back to its node when it is dropped with nothing left
/// behind.
pub(super) struct Session {
    /// Absent while replies are missing, and once one did not come.
    connection: Option<ExclusiveConnection>,
    node: Arc<Node>,
    /// State of the caller may be left on the server: watched keys, an open `MULTI`.
    is_dirty: bool,
}

impl Session {
    pub(super) async fn open(node: Arc<Node>) -> Result<Self> {
        Ok(Self { connection: Some(node.exclusive().await?), node, is_dirty: false })
    }

    pub(super) const fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Sends commands in one round trip and waits for all replies. An error reply is a reply.
    ///
    /// # Errors
    /// When a reply did not come: then the outcome is unknown, and the session is of no use any
    /// more.
    pub(super) async fn commands(&mut self, commands: &[&[&[u8]]]) -> Result<Vec<Reply>> {
        // Taken out while replies are missing: a future that is dropped in between leaves none.
        let mut connection = self.connection.take().ok_or_else(ended)?;
        for words in commands {
            self.is_dirty = match words.first() {
                Some(&b"WATCH" | &b"MULTI") => true,
                Some(&b"EXEC") => false,
                _ => self.is_dirty,
            };
        }
        let replies = connection.exchange(commands, self.node.target().reply_timeout()).await?;
        // After an error it is not certain what is left behind.
        self.is_dirty |= replies.iter().any(|reply| matches!(reply, Reply::Error(_)));
        self.connection = Some(connection);
        Ok(replies)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(mut connection) = self.connection.take().filter(|_| !self.is_dirty)
            && connection.is_quiet()
        {
            self.node.keep(connection);
        }
    }
}

impl transport::Session for Session {
    fn run<'a>(&'a mut self, commands: &'a [Command]) -> BoxFuture<'a, Result<Vec<Reply>>> {
        Box::pin(async move {
            let words: Vec<Vec<&[u8]>> =
                commands.iter().map(|command| command.words().collect()).collect();
            let words: Vec<&[&[u8]]> = words.iter().map(Vec::as_slice).collect();
            self.commands(&words).await
        })
    }
}

impl Sessions for Client {
    fn open<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Box<dyn transport::Session>>> {
        Box::pin(async move {
            Ok(match &self.servers {
                Servers::One(node) => {
                    Box::new(Session::open(Arc::clone(node)).await?) as Box<dyn transport::Session>
                }
                Servers::Cluster(cluster) => {
                    let slot = slot_of(key.as_bytes());
                    Box::new(RedirectSession::open(cluster.clone(), slot).await?)
                }
            })
        })
    }
}

fn ended() -> Error {
    Error::new(Code::StoreUnavailable, "the session with Redis has ended").not_sent()
}
