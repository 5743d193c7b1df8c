//! One call on its way, in as few bytes as can be: hundreds of callers wait at the same time, and what
//! each of them holds is fetched from far away for every reply.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;
use tollgate_core::{BoxFuture, Error, Result};

use super::Servers;
use super::alone::Alone;
use super::cluster::Cluster;
use super::link::abandoned;
use super::node::{Mark, Node};
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
    One { node: &'a Node, reply: Awaited, mark: Mark },
    /// To the node that serves its slot, as far as is known.
    Many { cluster: &'a Cluster, call: &'a Call, node: Arc<Node>, reply: Awaited, mark: Mark },
    /// To a node that has to be found first, or another one after that.
    Seeking(BoxFuture<'a, Result<Reply>>),
}

impl<'a> Sending<'a> {
    pub(super) fn new(servers: &'a Servers, call: &'a Call) -> Self {
        match servers {
            Servers::One(node) => {
                let (reply, mark) = node.send(call);
                Self::One { node, reply, mark }
            }
            Servers::Many(cluster) => match cluster.known_owner(call) {
                Some(node) => {
                    let (reply, mark) = node.send(call);
                    Self::Many { cluster, call, node, reply, mark }
                }
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
                Self::One { node, reply, mark } => return poll(reply, cx, node, *mark),
                Self::Many { cluster, call, node, reply, mark } => {
                    match ready!(poll(reply, cx, node, *mark)) {
                        Ok(reply) if !matches!(reply, Reply::Error(_)) => {
                            node.trust().judge(call, &reply);
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

/// The reply to a call that was sent to a node.
pub(super) async fn answer(mut reply: Awaited, node: &Node, mark: Mark) -> Result<Reply> {
    poll_fn(|cx| poll(&mut reply, cx, node, mark)).await
}

/// Whoever waits until its time is up behind others who are answered has not met silence.
fn poll(reply: &mut Awaited, cx: &mut Context<'_>, node: &Node, mark: Mark) -> Poll<Result<Reply>> {
    match Pin::new(reply).poll(cx) {
        Poll::Pending => {
            node.last_words(mark).map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
        }
        ready => ready,
    }
}
