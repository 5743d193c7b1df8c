//! A byte stream to a server: plain or encrypted.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tollgate_net::tls::Encrypted;

/// A connection of either kind.
#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<Encrypted>),
}

impl Stream {
    /// Whether the other side has neither closed nor sent anything.
    pub(super) fn is_quiet(&mut self) -> bool {
        let socket = match self {
            Self::Plain(stream) => &*stream,
            Self::Encrypted(stream) => stream.get_ref().0,
        };
        // The socket itself is asked: the runtime may not have polled it yet.
        match SockRef::from(socket).peek(&mut [MaybeUninit::uninit(); 1]) {
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            Ok(0) => false,
            Ok(_) => self.sends_only_keys(),
        }
    }

    /// An encrypted stream may carry what is no data, such as keys with which to resume the
    /// session.
    fn sends_only_keys(&mut self) -> bool {
        let Self::Encrypted(stream) = self else { return false };
        let mut byte = [0; 1];
        let mut cx = Context::from_waker(Waker::noop());
        Pin::new(stream).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Encrypted(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Encrypted(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
