//! Bodies of requests that are read whole, bounded in size and time: the same for every protocol
//! over HTTP.
//!
//! Nothing is buffered while they are read: a frame that has arrived costs a comparison, and a
//! timer starts only when the reader has to wait.

use std::borrow::Borrow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::incoming::IncomingBytes;

/// A body within its bounds.
#[derive(Debug)]
pub(crate) struct Bounded<B, I = IncomingBytes> {
    body: B,
    left: usize,
    timeout: Duration,
    /// Starts when the reader waits for the first time.
    timer: Option<Pin<Box<Sleep>>>,
    /// Its bytes are counted, with those of other bodies of the client.
    incoming: Option<I>,
}

/// Why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It is too long, or broke off.
    Long,
    /// It took too long to arrive.
    Late,
    /// The client has sent too many bytes that are not answered yet.
    Crowded,
}

impl<B, I: Borrow<IncomingBytes>> Bounded<B, I> {
    /// At most `max` bytes.
    pub(crate) const fn new(body: B, max: usize, timeout: Duration, incoming: Option<I>) -> Self {
        Self { body, left: max, timeout, timer: None, incoming }
    }

    /// Accepts a frame within the bounds.
    fn count(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, Unreadable> {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        self.left = self.left.checked_sub(bytes).ok_or(Unreadable::Long)?;
        let incoming = self.incoming.as_ref();
        if incoming.is_none_or(|incoming| incoming.borrow().add(bytes)) {
            return Ok(frame);
        }
        Err(Unreadable::Crowded)
    }
}

impl<B: Body<Data = Bytes> + Unpin, I: Borrow<IncomingBytes> + Unpin> Bounded<B, I> {
    /// Reads it. One frame, as most bodies are, is not copied.
    ///
    /// # Errors
    /// When it exceeds a bound, or the client has left.
    pub(crate) async fn whole(&mut self) -> Result<Bytes, Unreadable> {
        let mut first = Bytes::new();
        let mut all = BytesMut::new();
        while let Some(frame) = self.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            if !first.is_empty() {
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            if all.is_empty() {
                first = data;
            } else {
                all.extend_from_slice(&data);
            }
            if self.is_end_stream() {
                break;
            }
        }
        Ok(if all.is_empty() { first } else { all.freeze() })
    }
}

impl<B, I> Body for Bounded<B, I>
where
    B: Body<Data = Bytes> + Unpin,
    I: Borrow<IncomingBytes> + Unpin,
{
    type Data = Bytes;
    type Error = Unreadable;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Unreadable>>> {
        let this = self.get_mut();
        if let Poll::Ready(read) = Pin::new(&mut this.body).poll_frame(context) {
            return Poll::Ready(read.map(|read| match read {
                Ok(frame) => this.count(frame),
                Err(_) => Err(Unreadable::Long),
            }));
        }
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(this.timeout)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Some(Err(Unreadable::Late)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::body::Body as AnyBody;
    use tokio::sync::Semaphore;
    use tokio_stream::StreamExt as _;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    async fn read(body: AnyBody, timeout: Duration) -> Result<Bytes, Unreadable> {
        Bounded::<_>::new(body, 105, timeout, None).whole().await
    }

    /// A body of two pieces.
    fn pieces(bytes: usize) -> AnyBody {
        let piece = || Ok::<_, std::io::Error>(vec![0; bytes]);
        AnyBody::from_stream(tokio_stream::iter([piece(), piece()]))
    }

    #[tokio::test]
    async fn a_body_is_read_within_its_bounds() {
        assert_eq!(read(AnyBody::from(vec![7; 105]), LONG).await.unwrap(), vec![7; 105]);
        assert_eq!(read(pieces(50), LONG).await.unwrap(), vec![0; 100]);
        assert!(read(AnyBody::empty(), LONG).await.unwrap().is_empty());
        assert_eq!(read(AnyBody::from(vec![0; 106]), LONG).await, Err(Unreadable::Long));
        assert_eq!(read(pieces(60), LONG).await, Err(Unreadable::Long));
        let begun = tokio_stream::once(Ok::<_, std::io::Error>("half"));
        let half = AnyBody::from_stream(begun.chain(tokio_stream::pending()));
        assert_eq!(read(half, Duration::ZERO).await, Err(Unreadable::Late));
    }

    #[tokio::test]
    async fn bodies_of_a_client_share_a_bound() {
        let bound = Arc::new(Semaphore::new(100));
        let body = |bytes| {
            let incoming = IncomingBytes::new(Arc::clone(&bound));
            Bounded::new(AnyBody::from(vec![0; bytes]), 105, LONG, Some(incoming))
        };
        let mut first = body(60);
        assert_eq!(first.whole().await.unwrap().len(), 60);
        assert_eq!(body(60).whole().await, Err(Unreadable::Crowded));
        assert!(body(40).whole().await.is_ok());
        drop(first);
        assert!(body(60).whole().await.is_ok());
    }
}
