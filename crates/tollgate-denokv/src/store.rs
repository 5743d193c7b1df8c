//! The store: the compare-and-swap adapter of the core over the database.

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
#[derive(Debug)]
pub struct DenoKv(Cas<Backend>);

impl DenoKv {
    /// Opens a store without waiting. It connects at the first call.
    ///
    /// # Errors
    /// `config_invalid` naming `token`, `url`, `ca` or a setting of the retries.
    pub fn open(config: Config) -> Result<Self> {
        let Config { slack, retries, max_request_ids, reclaims, .. } = config;
        let backend = Backend { sessions: Sessions::new(config)?, reclaims };
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

    /// How many writes lost a race to another process so far.
    #[must_use]
    pub fn lost_races(&self) -> u64 {
        self.0.lost_races()
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
