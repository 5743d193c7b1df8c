//! Bodies of requests, bounded in size and time while they are read; a stream ends at shutdown.
//!
//! Nothing is buffered: a frame that has arrived costs a comparison, and a timer starts only when
//! the reader has to wait.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};
use tonic::Status;

use crate::listen::IncomingBytes;

/// The prefix of a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The body of a request that is one message, bounded in size and time.
#[derive(Debug)]
pub(super) struct Message<B> {
    body: B,
    max: usize,
    left: usize,
    timeout: Duration,
    /// Starts when the reader waits for the first time.
    timer: Option<Pin<Box<Sleep>>>,
    /// Its bytes are counted, with those of other messages of the client.
    incoming: Option<Arc<IncomingBytes>>,
}

impl<B> Message<B> {
    /// At most `max` bytes, without the prefix.
    pub(super) const fn new(
        body: B,
        max: usize,
        timeout: Duration,
        incoming: Option<Arc<IncomingBytes>>,
    ) -> Self {
        let left = max.saturating_add(PREFIX_BYTES);
        Self { body, max, left, timeout, timer: None, incoming }
    }

    /// Accepts a frame within the bound.
    fn count(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, Status> {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        self.left = self.left.checked_sub(bytes).ok_or_else(|| self.unreadable())?;
        if self.incoming.as_ref().is_none_or(|incoming| incoming.add(bytes)) {
            return Ok(frame);
        }
        let message = "too many bytes in messages of this connection at once";
        Err(Status::resource_exhausted(message))
    }

    fn unreadable(&self) -> Status {
        let max = self.max;
        Status::out_of_range(format!("the message cannot be read; accepted: up to {max} bytes"))
    }
}

type Polled = Poll<Option<Result<Frame<Bytes>, Status>>>;

/// Reads a body that is one message. One frame, as most are, is not copied.
///
/// # Errors
/// When it exceeds a bound, or the client has left.
pub(super) async fn whole<B: HttpBody<Data = Bytes> + Unpin>(
    mut body: Message<B>,
) -> Result<Bytes, Status> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if !first.is_empty() {
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        if all.is_empty() {
            first = data;
        } else {
            all.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Message<B> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        let this = self.get_mut();
        if let Poll::Ready(read) = Pin::new(&mut this.body).poll_frame(context) {
            return Poll::Ready(read.map(|read| match read {
                Ok(frame) => this.count(frame),
                Err(_) => Err(this.unreadable()),
            }));
        }
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(this.timeout)));
        ready!(timer.as_mut().poll(context));
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
        let half = Message::new(unfinished("half"), 100, Duration::ZERO, None);
        assert_eq!(failure(half).await, Code::DeadlineExceeded);
        let long = Message::new(Body::from(vec![0; 106]), 100, LONG, None);
        assert_eq!(failure(long).await, Code::OutOfRange);
        let pieces = tokio_stream::iter([Ok::<_, std::io::Error>(vec![0; 60]), Ok(vec![0; 60])]);
        let long = Message::new(Body::from_stream(pieces), 100, LONG, None);
        assert_eq!(failure(long).await, Code::OutOfRange);
        let fits = Body::new(Message::new(Body::from(vec![7; 105]), 100, LONG, None));
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
