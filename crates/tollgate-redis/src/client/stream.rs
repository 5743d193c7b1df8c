//! A byte stream to a server: plain or encrypted.

use core::fmt::Debug;

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection of either kind.
pub(super) type Stream = Box<dyn ByteStream>;

/// What TCP and TLS connections have in common.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Debug + Send + Unpin> ByteStream for S {}
