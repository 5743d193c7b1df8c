//! Just enough of a runtime to drive any store: one future, or many of them concurrently.
//!
//! Stores that wait on no reactor need nothing else. For the others the conformance suite takes a
//! runner of their own (tokio's `block_on`, for example); [`join_all`] works under each of them.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

/// Runs a future to its end on this thread, which parks while there is nothing to do.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls all futures concurrently; their outputs, in order.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Task<F>> =
        futures.into_iter().map(|future| Task::Running(Box::pin(future))).collect();
    poll_fn(|context| {
        let mut pending = false;
        for task in &mut running {
            pending |= task.poll_once(context);
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(Task::output).collect()
}

enum Task<F: Future> {
    Running(Pin<Box<F>>),
    Done(Option<F::Output>),
}

impl<F: Future> Task<F> {
    /// Whether it is still pending.
    fn poll_once(&mut self, context: &mut Context<'_>) -> bool {
        let Self::Running(future) = self else {
            return false;
        };
        match future.as_mut().poll(context) {
            Poll::Ready(output) => {
                *self = Self::Done(Some(output));
                false
            }
            Poll::Pending => true,
        }
    }

    fn output(self) -> Option<F::Output> {
        match self {
            Self::Running(_) => None,
            Self::Done(output) => output,
        }
    }
}

/// Gives way once: every other future that is polled with this one gets its turn.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if core::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_futures_interleave_and_keep_their_order() {
        let turns = std::sync::Mutex::new(Vec::new());
        let note = |name: u8| turns.lock().unwrap().push(name);
        let outputs = block_on(join_all((0..3).map(|name| async move {
            note(name);
            yield_now().await;
            note(name);
            name
        })));
        assert_eq!(outputs, [0, 1, 2]);
        assert_eq!(*turns.lock().unwrap(), [0, 1, 2, 0, 1, 2]);
    }
}
