//! Work that is detached from its caller: cancelling the caller does not cancel the work.
//!
//! What consists of several steps that belong together must not end between two of them. A caller
//! runs the work itself as long as it waits. When it is cancelled the rest is spawned, where the
//! store can; elsewhere the work ends with its caller.

use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::task::Poll;
use std::sync::Arc;

use super::{CallContext, CallFacts, TimeSource};
use crate::error::Result;
use crate::maybe_send::BoxFuture;

/// Runs a future to its end in the background.
pub type Spawner = fn(BoxFuture<'static, ()>);

/// What the work and its caller share.
#[derive(Debug, Default)]
pub struct Detached {
    /// The facts of the work, which the caller reports when it is cancelled.
    facts: CallFacts,
    is_cancelled: AtomicBool,
    /// Whether a part of the work is charged which the work may have to undo.
    is_charged: AtomicBool,
}

impl Detached {
    /// The context of a part of the work.
    #[must_use]
    pub const fn context(&self, time: TimeSource) -> CallContext<'_> {
        CallContext::new(time).with_facts(&self.facts)
    }

    /// Whether the caller was cancelled. The work repeats no attempt then: it undoes what it has
    /// done.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Relaxed)
    }

    /// Whether a part is charged now which a later one may undo.
    pub(super) fn set_charged(&self, is_charged: bool) {
        self.is_charged.store(is_charged, Relaxed);
    }
}

/// Runs work to its end, even when the caller is cancelled: then `spawner` runs the rest.
///
/// # Errors
/// Those of the work.
pub async fn run<T: 'static>(
    (shared, cx): (Arc<Detached>, CallContext<'_>),
    spawner: impl Fn() -> Option<Spawner>,
    work: BoxFuture<'static, Result<T>>,
) -> Result<T> {
    let mut rest = Rest { work: Some(work), shared, cx, spawner };
    poll_fn(|context| {
        let Some(work) = &mut rest.work else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            rest.work = None;
        }
        polled
    })
    .await
}

/// Work that is not finished.
struct Rest<'c, T: 'static, S: Fn() -> Option<Spawner>> {
    work: Option<BoxFuture<'static, Result<T>>>,
    shared: Arc<Detached>,
    cx: CallContext<'c>,
    spawner: S,
}

impl<T: 'static, S: Fn() -> Option<Spawner>> Drop for Rest<'_, T, S> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        self.cx.merge(&self.shared.facts);
        self.shared.is_cancelled.store(true, Relaxed);
        let (is_charged, spawner) = (self.shared.is_charged.load(Relaxed), (self.spawner)());
        match spawner {
            Some(_) if is_charged => self.cx.undoing(),
            // What is charged stays charged.
            None if is_charged => self.cx.sent(),
            _ => {}
        }
        if let Some(spawn) = spawner {
            // No caller is left for the result.
            spawn(Box::pin(async move { drop(work.await) }));
        }
    }
}
