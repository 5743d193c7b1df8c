//! Bodies that a refusal can be made of. The body type of the service stays as it is, so that no
//! body is boxed on the way.

use bytes::Bytes;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt, Full};

/// A body that can be made of bytes: the response body of a service that is limited.
pub trait ReplyBody: Sized {
    /// A body of these bytes.
    fn from_bytes(bytes: Bytes) -> Self;
}

impl ReplyBody for Bytes {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes
    }
}

impl ReplyBody for Full<Bytes> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(bytes)
    }
}

impl<E> ReplyBody for BoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(|never| match never {}).boxed()
    }
}

impl<E> ReplyBody for UnsyncBoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
    }
}
