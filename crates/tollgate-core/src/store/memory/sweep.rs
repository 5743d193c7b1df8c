//! The optional background sweep: a thread that ends with its store.

use std::sync::{Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::Inner;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};

/// How often the thread checks whether its store is still there.
const LIVENESS: Duration = Duration::from_secs(1);

/// Sweeps a store every `interval` for as long as it lives.
pub(super) fn in_background(store: Weak<Inner>, interval: Duration) -> Result<()> {
    if interval.is_zero() {
        return Err(Error::config("sweep_every", "0s is out of range; accepted: longer than 0s"));
    }
    let run = move || {
        let clock = SystemClock::new();
        let mut waited = Duration::ZERO;
        while let Some(store) = store.upgrade() {
            if waited >= interval {
                store.sweep(clock.now());
                waited = Duration::ZERO;
            }
            drop(store);
            let pause = LIVENESS.min(interval - waited);
            wait(pause);
            waited += pause;
        }
    };
    let started = thread::Builder::new().name("tollgate-sweep".into()).spawn(run);
    started.map(drop).map_err(|cause| {
        Error::config("sweep_every", "no thread could be started").with_source(cause)
    })
}

/// Waits without a clock: this condition is never signalled.
fn wait(pause: Duration) {
    let never = (Mutex::new(()), Condvar::new());
    let guard = never.0.lock().unwrap_or_else(PoisonError::into_inner);
    let _timed_out = never.1.wait_timeout(guard, pause);
}
