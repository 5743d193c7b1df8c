//! The bodies of requests, bounded while they are read: who sends half of a message holds nothing for
//! long, and a stream does not outlive the server.
//!
//! Nothing is gathered: what has arrived costs a comparison, and a timer begins only where something is
//! missing.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};
use tonic::Status;

/// What every message begins with: whether it is compressed, and its length.
const HEAD_BYTES: usize = 5;

/// The body of a request that is one message: of so many bytes, and whole in time.
#[derive(Debug)]
pub(super) struct Message {
    body: Body,
    max: usize,
    left: usize,
    within: Duration,
    /// Since something was missing for the first time.
    late: Option<Pin<Box<Sleep>>>,
}

impl Message {
    /// `max` bytes, apart from what every message begins with.
    pub(super) const fn new(body: Body, max: usize, within: Duration) -> Self {
        Self { body, max, left: max.saturating_add(HEAD_BYTES), within, late: None }
    }

    /// The frame, if there is room for it.
    fn counted(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, Status> {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        self.left = self.left.checked_sub(bytes).ok_or_else(|| self.unreadable())?;
        Ok(frame)
    }

    fn unreadable(&self) -> Status {
        let max = self.max;
        Status::out_of_range(format!("the message cannot be read; accepted: up to {max} bytes"))
    }
}

type Polled = Poll<Option<Result<Frame<Bytes>, Status>>>;

impl HttpBody for Message {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        let this = self.get_mut();
        if let Poll::Ready(read) = Pin::new(&mut this.body).poll_frame(context) {
            return Poll::Ready(read.map(|read| match read {
                Ok(frame) => this.counted(frame),
                Err(_) => Err(this.unreadable()),
            }));
        }
        let late = this.late.get_or_insert_with(|| Box::pin(sleep(this.within)));
        ready!(late.as_mut().poll(context));
        let status = Status::deadline_exceeded("the message took too long to arrive");
        Poll::Ready(Some(Err(status)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request that is a stream: it ends with its client, or with the server.
pub(super) struct Stream {
    body: Body,
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Stream {
    /// Ends when the sender of `end` is gone.
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
    use tokio_stream::StreamExt;
    use tonic::Code;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// How reading it fails.
    async fn failure(message: Message) -> Code {
        let error = to_bytes(Body::new(message), usize::MAX).await.unwrap_err();
        // As tonic reads it.
        Status::from_error(error.into()).code()
    }

    /// A body of which nothing more comes.
    fn unfinished(begun: &'static str) -> Body {
        let begun = tokio_stream::once(Ok::<_, std::io::Error>(begun));
        Body::from_stream(begun.chain(tokio_stream::pending()))
    }

    #[tokio::test]
    async fn half_a_message_is_not_waited_for_and_a_whole_one_is_handed_on() {
        let half = Message::new(unfinished("half"), 100, Duration::ZERO);
        assert_eq!(failure(half).await, Code::DeadlineExceeded);
        let long = Message::new(Body::from(vec![0; 106]), 100, PATIENCE);
        assert_eq!(failure(long).await, Code::OutOfRange);
        let pieces = tokio_stream::iter([Ok::<_, std::io::Error>(vec![0; 60]), Ok(vec![0; 60])]);
        let long = Message::new(Body::from_stream(pieces), 100, PATIENCE);
        assert_eq!(failure(long).await, Code::OutOfRange);
        let fits = Body::new(Message::new(Body::from(vec![7; 105]), 100, PATIENCE));
        assert_eq!(to_bytes(fits, 105).await.unwrap(), vec![7; 105]);
    }

    #[tokio::test]
    async fn a_stream_goes_on_until_it_is_told_to_end() {
        let (end, ends) = watch::channel(());
        let mut read = Body::new(Stream::new(unfinished("a"), ends)).into_data_stream();
        assert_eq!(read.next().await.unwrap().unwrap(), "a");
        let more = tokio::time::timeout(Duration::ZERO, read.next());
        assert!(more.await.is_err(), "it has ended too early");
        drop(end);
        let more = tokio::time::timeout(PATIENCE, read.next());
        assert!(more.await.expect("it never ends").is_none());
    }
}
