//! Compare-and-swap from a Worker: every request races on its own.

use core::time::Duration;

use tollgate_core::store::Retries;
use tollgate_core::store::cas::{Cas, Versioned};

use crate::clock::{WorkerClock, jitter};

/// A read and a write take some milliseconds, and every request races on its own: many losers need
/// waits of seconds to get out of each other's way.
const RETRIES: u32 = 100;
const BASE_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// The adapter over a backend, with timers and random numbers of the runtime.
pub(crate) fn racing<V: Versioned + 'static>(backend: V) -> Cas<V> {
    let retries =
        Retries::default().max_retries(RETRIES).base_backoff(BASE_BACKOFF).max_backoff(MAX_BACKOFF);
    Cas::with_jitter(backend, WorkerClock, jitter()).retries(retries)
}
