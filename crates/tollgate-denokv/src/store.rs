//! The store: the compare-and-swap adapter of the core over the database.

use core::fmt;
use core::sync::atomic::Ordering;

use tollgate_core::store::{BatchResults, CallContext, Capability, Cas, Evidence, Loaded, Store};
use tollgate_core::{Admission, Charge, Key, Result};

use crate::backend::Backend;
use crate::config::Config;
use crate::session::Sessions;

/// A store in a Deno KV database.
///
/// ```no_run
/// use tollgate_core::algorithm::TokenBucket;
/// use tollgate_core::{Limit, Limiter, Quota};
/// use tollgate_denokv::{Config, DenoKv};
///
/// # async fn run() -> tollgate_core::Result<()> {
/// let config: Config = "denokv+https://kv.example.com".parse()?;
/// let limiter = Limiter::new(DenoKv::connect(config.token_from_env()).await?);
/// let uploads = Limit::new("uploads", TokenBucket::new(10, Quota::per_second(1))?)?;
/// let decision = limiter.check(uploads.charge("ada")).await?;
/// # Ok(())
/// # }
/// ```
pub struct DenoKv(Cas<Backend>);

/// The requests of a store to its database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Reads, each of up to ten keys.
    pub reads: u64,
    /// Atomic writes, including those that lost a race.
    pub writes: u64,
    /// Writes that lost a race to another process: nothing was written.
    pub conflicts: u64,
}

impl DenoKv {
    /// Opens a store without waiting. It connects at the first call.
    ///
    /// # Errors
    /// `config_invalid` naming `token`, `url`, `ca` or a setting of the retries.
    pub fn open(config: Config) -> Result<Self> {
        let Config { slack, retries, max_request_ids, reclaims, .. } = config;
        let backend = Backend {
            sessions: Sessions::new(config)?,
            reclaims,
            reads: 0.into(),
            writes: 0.into(),
            conflicts: 0.into(),
        };
        let store = Cas::new(backend).slack(slack).retries(retries.validated()?);
        Ok(Self(store.max_request_ids(max_request_ids)))
    }

    /// Opens a store, connects, and exchanges the token.
    ///
    /// # Errors
    /// As [`DenoKv::open`]; when the server cannot be reached or refuses the token.
    pub async fn connect(config: Config) -> Result<Self> {
        let store = Self::open(config)?;
        store.0.backend().sessions.current().await?;
        Ok(store)
    }

    /// The requests so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let backend = self.0.backend();
        Traffic {
            reads: backend.reads.load(Ordering::Relaxed),
            writes: backend.writes.load(Ordering::Relaxed),
            conflicts: backend.conflicts.load(Ordering::Relaxed),
        }
    }
}

impl Store for DenoKv {
    fn capability(&self) -> Capability {
        self.0.capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.0.admit(admission, cx).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        self.0.admit_many(batch, results, cx).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.0.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.0.reset(key, cx).await
    }

    async fn close(&self) {
        self.0.close().await;
    }

    fn round_trips(&self) -> Option<u64> {
        self.0.round_trips()
    }
}

impl fmt::Debug for DenoKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DenoKv").field(&self.0).finish()
    }
}
