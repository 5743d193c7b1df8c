//! The preface of HTTP/2, which every client sends first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// The length of the preface.
const BYTES: usize = 24;

/// A stream whose first bytes were read already, and are returned first.
#[derive(Debug)]
pub(super) struct Prefaced<S> {
    first: Bytes,
    stream: S,
}

/// Reads as many bytes as the preface has; `None` when they do not arrive in time. hyper checks
/// them.
pub(super) async fn read<S: AsyncRead + Unpin>(
    mut stream: S,
    timeout: Duration,
) -> Option<Prefaced<S>> {
    let mut first = [0; BYTES];
    match tokio::time::timeout(timeout, stream.read_exact(&mut first)).await {
        Ok(Ok(_)) => Some(Prefaced { first: Bytes::copy_from_slice(&first), stream }),
        Ok(Err(_)) | Err(_) => None,
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefaced<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefaced<S> {
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
    async fn a_partial_preface_times_out_and_a_whole_one_is_returned() {
        let (mut client, server) = tokio::io::duplex(64);
        client.write_all(b"P").await.unwrap();
        assert!(read(server, Duration::ZERO).await.is_none());
        let (mut client, server) = tokio::io::duplex(64);
        let sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nmore";
        client.write_all(sent).await.unwrap();
        drop(client);
        let mut stream = read(server, Duration::from_secs(60)).await.unwrap();
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, sent);
    }
}
