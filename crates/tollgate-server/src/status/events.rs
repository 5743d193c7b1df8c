//! The event stream: a status per second, as server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{mpsc, watch};

use crate::listen::UnderWay;

/// How long a browser waits before it connects again.
const PREAMBLE: &str = "retry: 2000\n\n";

/// The body of a stream, and what counts it.
#[derive(Debug)]
pub(crate) struct Events {
    events: mpsc::Receiver<Bytes>,
    pub(crate) stream: Option<UnderWay>,
}

impl Events {
    /// A stream that begins with `first`, and ends when `is_permitted` says no or nothing is
    /// published any more. A client that reads slowly misses events and gets the newest one.
    pub(super) fn new(
        first: Bytes,
        mut newest: watch::Receiver<Bytes>,
        is_permitted: impl Fn() -> bool + Send + 'static,
        stream: UnderWay,
    ) -> Self {
        let (send, events) = mpsc::channel(1);
        newest.mark_unchanged();
        tokio::spawn(async move {
            let mut next = [PREAMBLE.as_bytes(), &event(&first)].concat().into();
            while is_permitted() && send.send(next).await.is_ok() {
                tokio::select! {
                    changed = newest.changed() => if changed.is_err() { return },
                    () = send.closed() => return,
                }
                next = newest.borrow_and_update().clone();
            }
        });
        Self { events, stream: Some(stream) }
    }
}

/// An event with a line of JSON.
pub(super) fn event(json: &[u8]) -> Bytes {
    [b"event: status\ndata: ", json, b"\n\n"].concat().into()
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
