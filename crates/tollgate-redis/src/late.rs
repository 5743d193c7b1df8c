//! What becomes of work of which nothing is heard until the time is up.
//!
//! A limiter that gives up polls its call one last time. Of several that were sent together, some may be
//! answered by then: theirs are handed over in that poll, and the others are the only ones that have met
//! silence.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use tollgate_core::store::patience::{is_over, silent};
use tollgate_core::{Error, Result};

use crate::transport::Reply;

/// What the work comes to; nothing if the time is up before.
pub(crate) async fn in_time<F: Future>(work: F) -> Option<F::Output> {
    let mut work = pin!(work);
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Pending if is_over() => Poll::Ready(None),
        polled => polled.map(Some),
    })
    .await
}

/// The replies to so many calls. When the time is up each of them has one: a `timeout`, unsent if they
/// were not even begun.
pub(crate) async fn replies_in_time<F>(
    count: usize,
    begin: impl FnOnce() -> F,
) -> Vec<Result<Reply>>
where
    F: Future<Output = Vec<Result<Reply>>>,
{
    let all = |error: Error| (0..count).map(|_| Err(error.clone())).collect();
    if is_over() {
        return all(silent().not_sent());
    }
    in_time(begin()).await.unwrap_or_else(|| all(silent()))
}
