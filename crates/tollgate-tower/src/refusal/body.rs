//! Bodies of responses: made for refusals, and guarded until they end. A layer keeps the body type
//! of its service, so that no body is boxed.

use core::any::Any;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt, Full};
use pin_project_lite::pin_project;

/// The response body of a limited service: a refusal makes one from bytes, and a request that is
/// settled at the end guards one.
pub trait ResponseBody: Sized {
    /// A body of these bytes.
    fn from_bytes(bytes: Bytes) -> Self;

    /// The same body, which drops the guard when it has ended: after its last frame, at an error,
    /// or when it is dropped before. For a body whose content is complete, that is now. [`Guarded`]
    /// does so for any body.
    fn guarded(self, guard: BodyGuard) -> Self;
}

/// Settles a request when it is dropped.
pub struct BodyGuard(
    /// Never read: what counts is when it is dropped.
    #[expect(dead_code, reason = "held until the body ends")]
    Box<dyn Any + Send + Sync>,
);

impl BodyGuard {
    pub(crate) fn new(settles: impl Any + Send + Sync) -> Self {
        Self(Box::new(settles))
    }
}

impl fmt::Debug for BodyGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyGuard").finish_non_exhaustive()
    }
}

pin_project! {
    /// A body that drops a guard when it has ended.
    #[derive(Debug)]
    pub struct Guarded<B> {
        #[pin]
        body: B,
        guard: Option<BodyGuard>,
    }
}

impl<B> Guarded<B> {
    /// Guards a body.
    pub const fn new(body: B, guard: BodyGuard) -> Self {
        Self { body, guard: Some(guard) }
    }
}

impl<B: Body> Body for Guarded<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            *this.guard = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl ResponseBody for Bytes {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes
    }

    fn guarded(self, _ended: BodyGuard) -> Self {
        self
    }
}

impl ResponseBody for Full<Bytes> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(bytes)
    }

    fn guarded(self, _ended: BodyGuard) -> Self {
        self
    }
}

impl<E: 'static> ResponseBody for BoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(|never| match never {}).boxed()
    }

    fn guarded(self, guard: BodyGuard) -> Self {
        Guarded::new(self, guard).boxed()
    }
}

impl<E: 'static> ResponseBody for UnsyncBoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
    }

    fn guarded(self, guard: BodyGuard) -> Self {
        Guarded::new(self, guard).boxed_unsync()
    }
}
