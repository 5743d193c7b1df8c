//! Reads little at once from a client that has made no valid request.
//!
//! HTTP/2 begins all requests that are in the buffer before the first of them is answered, and each
//! takes some kilobytes until then. Read in pieces, a client has few of them at once. One that asks
//! in vain again and again is not read any more: it is closed when its time for a valid request is
//! over, or makes room for another client. Closed at once, it would only connect again.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

use super::client::Client;

/// More than the first requests of most clients.
const PIECE_BYTES: u64 = 2 * 1024;

/// A stream that is read in pieces until its client has made a valid request. Between two pieces
/// the requests of the first one are looked at.
#[derive(Debug)]
pub(super) struct Pieces<S> {
    stream: Take<S>,
    client: Arc<Client>,
    is_valid: bool,
    has_read: bool,
}

impl<S: AsyncRead> Pieces<S> {
    pub(super) fn new(stream: S, client: Arc<Client>) -> Self {
        Self { stream: stream.take(u64::MAX), client, is_valid: false, has_read: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Pieces<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.is_valid {
            this.is_valid = this.client.is_valid();
            if this.client.asks_in_vain() {
                return Poll::Pending;
            }
            let is_first = !std::mem::take(&mut this.has_read);
            if !this.is_valid && (!is_first || this.client.has_unseen_requests()) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            this.stream.set_limit(if this.is_valid { u64::MAX } else { PIECE_BYTES });
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.has_read = buffer.filled().len() > before;
        polled
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Pieces<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.get_mut().stream.get_mut()).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().stream.get_mut()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.get_mut().stream.get_mut()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use tokio::sync::Semaphore;

    use super::*;

    /// How many bytes the next read takes, which may have to wait once for others.
    async fn next(stream: &mut Pieces<Cursor<Vec<u8>>>) -> usize {
        stream.read(&mut [0; 8_192]).await.unwrap()
    }

    #[tokio::test]
    async fn a_client_is_read_in_pieces_until_it_has_made_a_valid_request() {
        let client = Client::new(Arc::new(Semaphore::new(1)), false);
        let mut stream = Pieces::new(Cursor::new(vec![7; 20_000]), Arc::clone(&client));
        assert_eq!(next(&mut stream).await, 2_048);
        let mut buffer = [0; 10];
        let mut reading = polled_once(stream.read(&mut buffer));
        assert!(reading.is_none(), "others run first");
        client.request_arrived();
        reading = polled_once(stream.read(&mut buffer));
        assert!(reading.is_none(), "a request was not looked at");
        client.request_seen();
        assert_eq!(next(&mut stream).await, 2_048);
        client.made_valid_request();
        assert_eq!(next(&mut stream).await, 8_192);
        assert_eq!(next(&mut stream).await, 20_000 - 2 * 2_048 - 8_192);
        reading = polled_once(stream.read(&mut buffer));
        assert_eq!(reading.unwrap().unwrap(), 0);
    }

    /// What a future gives when it is polled once.
    fn polled_once<F: Future>(future: F) -> Option<F::Output> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        match Box::pin(future).as_mut().poll(&mut context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }
}
