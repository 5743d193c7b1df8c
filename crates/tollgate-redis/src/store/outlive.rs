//! Work that goes on when the caller who waits for it goes away.
//!
//! What consists of several steps that belong together must not end between two of them. A caller does
//! the work itself as long as it waits. When it goes away the rest is spawned, where the transport can;
//! elsewhere the work ends with its caller.

use core::future::{Future, poll_fn};
use core::task::Poll;

use tollgate_core::store::patience::Unhurried;
use tollgate_core::{BoxFuture, MaybeSend, Result};

use crate::transport::Spawner;

/// Runs work to its end, whatever becomes of whoever waits for this. `spawner` is asked when somebody goes
/// away.
///
/// # Errors
/// Those of the work; `conflict_exhausted` if the time is up and others have held the work up.
pub(super) async fn outlive<T: 'static>(
    spawner: impl Fn() -> Option<Spawner>,
    work: impl Future<Output = Result<T>> + MaybeSend + 'static,
) -> Result<T> {
    let mut rest = Rest { work: Some(Box::pin(work)), spawner };
    let mut unhurried = Unhurried::default();
    poll_fn(|context| {
        let Some(work) = &mut rest.work else { return Poll::Pending };
        let polled = unhurried.poll(work.as_mut(), context);
        if polled.is_ready() {
            rest.work = None;
            return polled;
        }
        unhurried.last_words().map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
    })
    .await
}

/// What is still to be done.
struct Rest<T: 'static, S: Fn() -> Option<Spawner>> {
    work: Option<BoxFuture<'static, Result<T>>>,
    spawner: S,
}

impl<T: 'static, S: Fn() -> Option<Spawner>> Drop for Rest<T, S> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take()
            && let Some(spawn) = (self.spawner)()
        {
            // Nobody is left who wants to know how it ends.
            spawn(Box::pin(async move { drop(work.await) }));
        }
    }
}
