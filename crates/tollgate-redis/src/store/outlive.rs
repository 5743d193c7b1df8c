//! Work that goes on when the caller who waits for it goes away.
//!
//! What consists of several steps that belong together must not end between two of them. Where the
//! transport can spawn, it does not; elsewhere the work ends with its caller.

use core::future::{Future, poll_fn};
use core::task::{Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::{Code, Error, MaybeSend, Result};

use crate::transport::Spawner;

/// Runs work to its end, whatever becomes of whoever waits for this.
///
/// # Errors
/// Those of the work; that nobody knows its outcome if the runtime that ran it is gone.
pub(super) async fn outlive<T: MaybeSend + 'static>(
    spawn: Spawner,
    work: impl Future<Output = Result<T>> + MaybeSend + 'static,
) -> Result<T> {
    let shared = Arc::new(Mutex::new(Waiting { answer: None, waker: None }));
    let mut answer = Answer { waiting: shared.clone(), is_given: false };
    spawn(Box::pin(async move { answer.give(work.await) }));
    poll_fn(|context| {
        let mut waiting = lock(&shared);
        if let Some(answer) = waiting.answer.take() {
            return Poll::Ready(answer);
        }
        waiting.waker = Some(context.waker().clone());
        Poll::Pending
    })
    .await
}

struct Waiting<T> {
    answer: Option<Result<T>>,
    waker: Option<Waker>,
}

/// Whoever works gives an answer, even if it does not come to its end.
struct Answer<T> {
    waiting: Arc<Mutex<Waiting<T>>>,
    is_given: bool,
}

impl<T> Answer<T> {
    fn give(&mut self, answer: Result<T>) {
        self.is_given = true;
        let mut waiting = lock(&self.waiting);
        waiting.answer = Some(answer);
        let waker = waiting.waker.take();
        drop(waiting);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        if !self.is_given {
            let message = "the runtime ended before the answer came; it may be spent";
            self.give(Err(Error::new(Code::StoreUnavailable, message)));
        }
    }
}

fn lock<T>(waiting: &Mutex<Waiting<T>>) -> MutexGuard<'_, Waiting<T>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
