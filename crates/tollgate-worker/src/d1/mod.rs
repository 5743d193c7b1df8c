//! Limits in a D1 database: exact by a version in each row.
//!
//! The compare-and-swap adapter of the core over two statements: one reads any number of values,
//! and one writes all of them if every version is still the one that was read. Each is a single
//! statement with a JSON array as its argument, so it is atomic without a transaction and takes one
//! round trip.
//!
//! Callers of one store share reads and writes on a key. A store that loses a race to another one
//! waits for a random time, on a timer of the runtime, and tries again.

mod backend;

use core::time::Duration;
use std::sync::Arc;

use tollgate_core::store::{
    BatchResults, CallContext, Capability, Evidence, Loaded, Retries, Store,
};
use tollgate_core::{Admission, Charge, Clock as _, Key, Result};
use worker::D1Database;

use crate::clock::WorkerClock;
use crate::races::{Races, racing};
use backend::Backend;

/// How long a value is kept after it means the same as none. It exceeds the time that a statement
/// may run (30 s), because the versions of a row that was deleted begin anew.
const SLACK: Duration = Duration::from_secs(60);

/// A store in a D1 database.
///
/// Open one for each request, or keep a [`PerCall`](crate::PerCall): futures of one request must
/// not wait for those of another. The first call that finds no table `tollgate_values` makes it.
///
/// ```no_run
/// use tollgate_core::{Limit, Quota};
/// use tollgate_worker::{D1, limiter};
///
/// # async fn example(env: worker::Env) -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = limiter(D1::new(env.d1("DB")?)).build();
/// let api = Limit::gcra("api", Quota::per_minute(100))?;
/// let decision = limiter.check(api.charge("ada")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct D1 {
    races: Races,
    backend: Arc<Backend>,
}

impl D1 {
    /// A store in a database.
    #[must_use]
    pub fn new(database: D1Database) -> Self {
        let backend = Arc::new(Backend(database));
        Self { races: racing(Arc::clone(&backend)).slack(SLACK), backend }
    }

    /// What an admission that lost a race does; by default it is repeated 100 times, after waits
    /// of up to 2 s.
    #[must_use]
    pub fn retries(self, retries: Retries) -> Self {
        Self { races: self.races.retries(retries), ..self }
    }

    /// How many request ids this store may have written that have not expired; more get
    /// `queue_full`. No bound by default.
    #[must_use]
    pub fn max_request_ids(self, ids: usize) -> Self {
        Self { races: self.races.max_request_ids(ids), ..self }
    }

    /// Deletes up to 1,000 values that mean nothing any more, and returns how many. For a cron
    /// trigger: nothing else deletes them.
    ///
    /// # Errors
    /// `store_unavailable` when the database fails.
    pub async fn reclaim(&self) -> Result<usize> {
        self.backend.reclaim(WorkerClock.now()).await
    }

    /// How many writes of this store lost a race so far.
    #[must_use]
    pub fn lost_races(&self) -> u64 {
        self.races.lost_races()
    }
}

impl Store for D1 {
    fn capability(&self) -> Capability {
        self.races.capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.races.admit(admission, cx).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        self.races.admit_many(batch, results, cx).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.races.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.races.reset(key, cx).await
    }

    fn round_trips(&self) -> Option<u64> {
        self.races.round_trips()
    }
}
