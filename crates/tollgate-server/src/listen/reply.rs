//! The body of a reply: its request is under way until the client has taken it.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use super::client::UnderWay;

/// The longest piece of a body that HTTP/2 takes before its window allows it.
const PIECE_BYTES: usize = 4 * 1024;

/// A body, and what is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Reply<B> {
    body: B,
    /// What is left of a frame.
    rest: Bytes,
    _under_way: UnderWay,
    _elements: Option<Held>,
}

/// The elements of a batch; in the extensions of a response.
pub(crate) type Held = std::sync::Arc<OwnedSemaphorePermit>;

impl<B> Reply<B> {
    pub(crate) fn new(body: B, mut under_way: UnderWay, elements: Option<Held>) -> Self {
        under_way.replied();
        Self { body, rest: Bytes::new(), _under_way: under_way, _elements: elements }
    }

    /// The next piece of what is left.
    fn piece(&mut self) -> Frame<Bytes> {
        Frame::data(self.rest.split_to(PIECE_BYTES.min(self.rest.len())))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Reply<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        if !this.rest.is_empty() {
            return Poll::Ready(Some(Ok(this.piece())));
        }
        Pin::new(&mut this.body).poll_frame(context).map_ok(|frame| match frame.into_data() {
            Ok(data) if data.len() <= PIECE_BYTES => Frame::data(data),
            Ok(data) => {
                this.rest = data;
                this.piece()
            }
            Err(other) => other,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (left, inner) =
            (u64::try_from(self.rest.len()).unwrap_or(u64::MAX), self.body.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(left));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(left));
        }
        hint
    }
}
