//! Bodies of requests, bounded in size and time while they are read; a stream ends at shutdown.

use std::borrow::Borrow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;
use tonic::Status;

use super::framing::PREFIX_BYTES;
use crate::listen::{Bounded, IncomingBytes, Unreadable};

/// The body of a request that is one message, bounded in size and time.
#[derive(Debug)]
pub(super) struct Message<B, I = Arc<IncomingBytes>> {
    body: Bounded<B, I>,
    max: usize,
}

impl<B, I: Borrow<IncomingBytes>> Message<B, I> {
    /// At most `max` bytes, without the prefix.
    pub(super) const fn new(body: B, max: usize, timeout: Duration, incoming: Option<I>) -> Self {
        let body = Bounded::new(body, max.saturating_add(PREFIX_BYTES), timeout, incoming);
        Self { body, max }
    }

    /// As clients learn it.
    fn status(&self, why: Unreadable) -> Status {
        let max = self.max;
        match why {
            Unreadable::Long => {
                let accepted = format!("accepted: up to {max} bytes");
                Status::out_of_range(format!("the message cannot be read; {accepted}"))
            }
            Unreadable::Late => Status::deadline_exceeded("the message took too long to arrive"),
            Unreadable::Crowded => {
                let message = "too many bytes in messages of this connection at once";
                Status::resource_exhausted(message)
            }
        }
    }
}

impl<B, I> Message<B, I>
where
    B: HttpBody<Data = Bytes> + Unpin,
    I: Borrow<IncomingBytes> + Unpin,
{
    /// Reads it.
    ///
    /// # Errors
    /// When it exceeds a bound, or the client has left.
    pub(super) async fn whole(&mut self) -> Result<Bytes, Status> {
        let read = self.body.whole().await;
        read.map_err(|why| self.status(why))
    }
}

impl<B, I> HttpBody for Message<B, I>
where
    B: HttpBody<Data = Bytes> + Unpin,
    I: Borrow<IncomingBytes> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(context);
        polled.map_err(|why| this.status(why))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request that is a stream: the client ends it, or the shutdown of the server.
pub(super) struct Stream {
    body: Body,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Stream {
    /// Ends when the sender of `end` is dropped.
    pub(super) fn new(body: Body, mut end: watch::Receiver<()>) -> Self {
        let ended = async move { while end.changed().await.is_ok() {} };
        Self { body, end: Some(Box::pin(ended)) }
    }
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let Some(end) = &mut this.end else { return Poll::Ready(None) };
        if end.as_mut().poll(context).is_ready() {
            this.end = None;
            return Poll::Ready(None);
        }
        Pin::new(&mut this.body).poll_frame(context)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use tokio::sync::Semaphore;
    use tokio_stream::StreamExt;
    use tonic::Code;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// The code with which reading fails.
    async fn failure(message: Message<Body>) -> Code {
        let error = to_bytes(Body::new(message), usize::MAX).await.unwrap_err();
        // As tonic converts it.
        Status::from_error(error.into()).code()
    }

    /// A body that never ends.
    fn unfinished(begun: &'static str) -> Body {
        let begun = tokio_stream::once(Ok::<_, std::io::Error>(begun));
        Body::from_stream(begun.chain(tokio_stream::pending()))
    }

    #[tokio::test]
    async fn a_partial_message_times_out_and_a_whole_one_is_passed_on() {
        let half = Message::<_>::new(unfinished("half"), 100, Duration::ZERO, None);
        assert_eq!(failure(half).await, Code::DeadlineExceeded);
        let long = Message::<_>::new(Body::from(vec![0; 106]), 100, LONG, None);
        assert_eq!(failure(long).await, Code::OutOfRange);
        let pieces = tokio_stream::iter([Ok::<_, std::io::Error>(vec![0; 60]), Ok(vec![0; 60])]);
        let long = Message::<_>::new(Body::from_stream(pieces), 100, LONG, None);
        assert_eq!(failure(long).await, Code::OutOfRange);
        let fits = Body::new(Message::<_>::new(Body::from(vec![7; 105]), 100, LONG, None));
        assert_eq!(to_bytes(fits, 105).await.unwrap(), vec![7; 105]);
    }

    #[tokio::test]
    async fn messages_of_a_connection_share_a_bound() {
        let bound = Arc::new(Semaphore::new(100));
        let message = |bytes| {
            let incoming = IncomingBytes::new(Arc::clone(&bound));
            Message::new(Body::from(vec![0; bytes]), 100, LONG, Some(Arc::new(incoming)))
        };
        let mut first = Body::new(message(60)).into_data_stream();
        assert_eq!(first.next().await.unwrap().unwrap().len(), 60);
        assert_eq!(failure(message(60)).await, Code::ResourceExhausted);
        assert!(to_bytes(Body::new(message(40)), 100).await.is_ok());
        drop(first);
        assert!(to_bytes(Body::new(message(60)), 100).await.is_ok());
    }

    #[tokio::test]
    async fn a_stream_ends_at_shutdown() {
        let (end, ends) = watch::channel(());
        let mut read = Body::new(Stream::new(unfinished("a"), ends)).into_data_stream();
        assert_eq!(read.next().await.unwrap().unwrap(), "a");
        let more = tokio::time::timeout(Duration::ZERO, read.next());
        assert!(more.await.is_err(), "it ended too early");
        drop(end);
        let more = tokio::time::timeout(LONG, read.next());
        assert!(more.await.expect("it never ends").is_none());
    }
}
