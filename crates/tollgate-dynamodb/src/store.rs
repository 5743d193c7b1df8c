//! The store: the compare-and-swap adapter of the core over a table.

use tollgate_core::store::{BatchResults, CallContext, Capability, Cas, Evidence, Loaded, Store};
use tollgate_core::{Admission, BoxFuture, Charge, Key, Result};

use crate::client::connect;
use crate::config::Config;
use crate::schema;
use crate::table::{Table, check_runtime};

/// A store in a DynamoDB table.
///
/// ```no_run
/// use tollgate_core::algorithm::TokenBucket;
/// use tollgate_core::{Limit, Limiter, Quota};
/// use tollgate_dynamodb::{Config, DynamoDb};
///
/// # async fn run() -> tollgate_core::Result<()> {
/// let config: Config = "dynamodb://limits?region=eu-central-1".parse()?;
/// DynamoDb::migrate(config.clone()).await?;
/// let limiter = Limiter::new(DynamoDb::connect(config).await?);
/// let uploads = Limit::new("uploads", TokenBucket::new(10, Quota::per_second(1))?)?;
/// let decision = limiter.check(uploads.charge("ada")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DynamoDb {
    cas: Cas<Table>,
}

impl DynamoDb {
    /// Opens a store over an existing table without waiting. It connects at the first call. Region
    /// and credentials that the settings do not contain are looked up then, in the background.
    ///
    /// # Errors
    /// `config_invalid` naming the setting that is not accepted, or `runtime` outside of a tokio
    /// runtime.
    pub fn open(config: Config) -> Result<Self> {
        check_runtime()?;
        config.validate()?;
        let (slack, retries) = (config.slack, config.retries);
        Ok(Self { cas: Cas::new(Table::new(config)).slack(slack).retries(retries) })
    }

    /// Opens a store and reads from the table: region, credentials, table and permissions are
    /// verified.
    ///
    /// # Errors
    /// As [`DynamoDb::open`]; `config_invalid` naming `region`, `credentials`, `table` or `store`;
    /// an outage when DynamoDB cannot be reached.
    pub async fn connect(config: Config) -> Result<Self> {
        let store = Self::open(config)?;
        store.cas.backend().verify().await?;
        Ok(store)
    }

    /// Creates the table, billed by request, with expiry of items; or checks that an existing table
    /// is one of this store.
    ///
    /// # Errors
    /// `config_invalid` when the table has another key schema, or a permission is missing; an
    /// outage when DynamoDB cannot be reached.
    pub async fn migrate(config: Config) -> Result<()> {
        check_runtime()?;
        config.validate()?;
        let client = connect(&config).await?;
        let work: BoxFuture<'_, _> = Box::pin(schema::migrate(&client, &config.address.table));
        work.await
    }

    /// Checks the table. Returns warnings for operators; none if the table is as it should be.
    ///
    /// # Errors
    /// As [`DynamoDb::migrate`]; `config_invalid` naming `table` if it does not exist.
    pub async fn inspect(config: Config) -> Result<Vec<String>> {
        check_runtime()?;
        config.validate()?;
        let client = connect(&config).await?;
        let work: BoxFuture<'_, _> = Box::pin(schema::inspect(&client, &config.address.table));
        work.await
    }

    /// How many writes lost a race to another process so far.
    #[must_use]
    pub fn lost_races(&self) -> u64 {
        self.cas.lost_races()
    }
}

impl Store for DynamoDb {
    fn capability(&self) -> Capability {
        self.cas.capability()
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        self.cas.admit(admission, cx).await
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        self.cas.admit_many(batch, results, cx).await;
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.cas.load(charges, cx).await
    }

    async fn reset(&self, key: Key<'_>, cx: CallContext<'_>) -> Result<()> {
        self.cas.reset(key, cx).await
    }

    async fn close(&self) {
        self.cas.close().await;
    }

    fn round_trips(&self) -> Option<u64> {
        self.cas.round_trips()
    }
}
