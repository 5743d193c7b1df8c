//! One call on its way, in as few bytes as can be: hundreds of callers wait at the same time, and what
//! each of them holds is fetched from far away for every reply.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;
use tollgate_core::{BoxFuture, Error, Result};

use super::Servers;
use super::alone::Alone;
use super::cluster::Cluster;
use super::link::abandoned;
use super::node::Node;
use super::queue::closed;
use crate::transport::{Call, Reply};

/// The reply to one command of a connection.
pub(super) enum Awaited {
    /// Nobody else waits.
    Alone(Alone),
    Shared(oneshot::Receiver<Result<Reply>>),
    /// It was not sent.
    Failed(Option<Error>),
}

impl Future for Awaited {
    type Output = Result<Reply>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Alone(alone) => Pin::new(alone).poll(cx),
            Self::Shared(receiver) => {
                let received = ready!(Pin::new(receiver).poll(cx));
                Poll::Ready(received.unwrap_or_else(|_| Err(abandoned())))
            }
            Self::Failed(why) => Poll::Ready(Err(why.take().unwrap_or_else(closed))),
        }
    }
}

/// The reply to a call, which was sent when this was made.
pub(super) enum Sending<'a> {
    /// To the only server.
    One(Awaited),
    /// To the node that serves its slot, as far as is known.
    Many { cluster: &'a Cluster, call: &'a Call, node: Arc<Node>, reply: Awaited },
    /// To a node that has to be found first, or another one after that.
    Seeking(BoxFuture<'a, Result<Reply>>),
}

impl<'a> Sending<'a> {
    pub(super) fn new(servers: &'a Servers, call: &'a Call) -> Self {
        match servers {
            Servers::One(node) => Self::One(node.send(call)),
            Servers::Many(cluster) => match cluster.known_owner(call) {
                Some(node) => Self::Many { cluster, call, reply: node.send(call), node },
                None => Self::Seeking(Box::pin(cluster.send(call))),
            },
        }
    }
}

impl Future for Sending<'_> {
    type Output = Result<Reply>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            match this {
                Self::One(reply) => return Pin::new(reply).poll(cx),
                Self::Many { cluster, call, node, reply } => {
                    match ready!(Pin::new(reply).poll(cx)) {
                        Ok(reply) if !matches!(reply, Reply::Error(_)) => {
                            return Poll::Ready(Ok(reply));
                        }
                        other => {
                            let node = Arc::clone(node);
                            *this = Self::Seeking(Box::pin(cluster.go_on(call, node, other)));
                        }
                    }
                }
                Self::Seeking(reply) => return reply.as_mut().poll(cx),
            }
        }
    }
}
