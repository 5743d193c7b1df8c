//! Compare-and-swap from a Worker: every request races on its own.
//!
//! The adapter is large, and D1 and Durable Objects both use it: behind a pointer, a Worker has it
//! once.

use core::fmt;
use core::time::Duration;

use tollgate_core::store::Retries;
use tollgate_core::store::cas::{Cas, Snapshot, Swap, Versioned, VersionedCapability};
use tollgate_core::{BoxFuture, MaybeSend, MaybeSync, Result};

use crate::clock::{WorkerClock, jitter};

/// A read and a write take some milliseconds, and every request races on its own: many losers need
/// waits of seconds to get out of each other's way.
const RETRIES: u32 = 100;
const BASE_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// The adapter over any backend.
pub(crate) type Races = Cas<AnyBackend>;

/// The adapter over a backend, with timers and random numbers of the runtime.
pub(crate) fn racing(backend: impl Versioned + 'static) -> Races {
    let retries =
        Retries::default().max_retries(RETRIES).base_backoff(BASE_BACKOFF).max_backoff(MAX_BACKOFF);
    Cas::with_jitter(AnyBackend(Box::new(backend)), WorkerClock, jitter()).retries(retries)
}

/// A backend that is chosen at run time.
pub(crate) struct AnyBackend(Box<dyn VersionedDyn>);

/// [`Versioned`] with boxed futures.
trait VersionedDyn: MaybeSend + MaybeSync {
    fn capability_dyn(&self) -> VersionedCapability;
    fn read_dyn<'a>(&'a self, keys: &'a [&'a str]) -> BoxFuture<'a, Result<Snapshot>>;
    fn swap_dyn<'a>(&'a self, writes: &'a [Swap<'a>]) -> BoxFuture<'a, Result<bool>>;
}

impl<V: Versioned> VersionedDyn for V {
    fn capability_dyn(&self) -> VersionedCapability {
        self.capability()
    }

    fn read_dyn<'a>(&'a self, keys: &'a [&'a str]) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(self.read(keys))
    }

    fn swap_dyn<'a>(&'a self, writes: &'a [Swap<'a>]) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.swap(writes))
    }
}

impl Versioned for AnyBackend {
    fn capability(&self) -> VersionedCapability {
        self.0.capability_dyn()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        self.0.read_dyn(keys).await
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        self.0.swap_dyn(writes).await
    }
}

impl fmt::Debug for AnyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyBackend").field(&self.0.capability_dyn()).finish()
    }
}
