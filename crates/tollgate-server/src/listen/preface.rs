//! The first bytes of HTTP/2, which every client must send at once.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// How many bytes it has.
const BYTES: usize = 24;

/// A stream whose first bytes were read, and are read once more.
#[derive(Debug)]
pub(super) struct Begun<S> {
    first: Bytes,
    stream: S,
}

/// The stream, if as many bytes as the preface has come in time, whatever they are.
pub(super) async fn begin<S: AsyncRead + Unpin>(
    mut stream: S,
    within: Duration,
) -> Option<Begun<S>> {
    let mut first = [0; BYTES];
    match tokio::time::timeout(within, stream.read_exact(&mut first)).await {
        Ok(Ok(_)) => Some(Begun { first: Bytes::copy_from_slice(&first), stream }),
        Ok(Err(_)) | Err(_) => None,
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { first, stream } = self.get_mut();
        if first.is_empty() {
            return Pin::new(stream).poll_read(context, buffer);
        }
        let fits = first.len().min(buffer.remaining());
        buffer.put_slice(&first.split_to(fits));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn half_a_preface_is_let_go_and_a_whole_one_is_read_again() {
        let (mut client, server) = tokio::io::duplex(64);
        client.write_all(b"P").await.unwrap();
        assert!(begin(server, Duration::ZERO).await.is_none());
        let (mut client, server) = tokio::io::duplex(64);
        let sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nmore";
        client.write_all(sent).await.unwrap();
        drop(client);
        let mut begun = begin(server, Duration::from_secs(60)).await.unwrap();
        let mut read = Vec::new();
        begun.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, sent);
    }
}
