//! The combiner under callers that are polled by hand.

mod callers;
mod gate;
mod model;
mod simulation;
mod workers;

use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

use super::*;
use crate::error::{Code, Error, Result};
use crate::store::{BatchResults, CallContext, CallFacts, Evidence, Retries};

type Answer = Result<u64>;
type Sum = Combiner<u64, Answer>;

const LIMITS: Limits = Limits { waiting: 100, round: 4, concurrent: 1 };
const NOW: CallContext<'static> = CallContext::at(0);

fn poll<F: Future + ?Sized>(call: Pin<&mut F>) -> Poll<F::Output> {
    call.poll(&mut Context::from_waker(Waker::noop()))
}

/// The answer of a call that must be there.
fn answer<T>(call: impl Future<Output = T>) -> T {
    match poll(pin!(call)) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("there is no answer"),
    }
}

fn jobs<J: Clone, R: Reply, Q: Queues<J, R>>(round: &Round<J, R, Q>) -> Vec<J> {
    round.jobs().cloned().collect()
}

/// Counts how often a task is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}
