//! The preface of HTTP/2, which every client sends first.

use std::io::Cursor;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, join, split};

/// The length of the preface.
const BYTES: usize = 24;

/// Reads as many bytes as the preface has, and returns a stream that begins with them; `None` when
/// they do not arrive in time. hyper checks them.
pub(super) async fn read<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    timeout: Duration,
) -> Option<impl AsyncRead + AsyncWrite + Unpin> {
    let mut first = [0; BYTES];
    tokio::time::timeout(timeout, stream.read_exact(&mut first)).await.ok()?.ok()?;
    let (reader, writer) = split(stream);
    Some(join(Cursor::new(first).chain(reader), writer))
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
