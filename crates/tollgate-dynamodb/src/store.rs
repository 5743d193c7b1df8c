//! The store as callers see it: the core's compare-and-swap adapter over a table.

use aws_sdk_dynamodb::Client;
use tollgate_core::store::{BatchResults, CallContext, Capability, Cas, Evidence, Loaded, Store};
use tollgate_core::{Admission, BoxFuture, Charge, Key, Result};

use crate::client::client;
use crate::config::Config;
use crate::schema;
use crate::table::{Table, in_a_runtime};

/// Limits in DynamoDB.
#[derive(Debug)]
pub struct DynamoDb {
    cas: Cas<Table>,
}

impl DynamoDb {
    /// A store over a table that exists. It connects when it is first asked; region and credentials
    /// that the settings do not name are looked for now.
    ///
    /// # Errors
    /// `config_invalid` naming `region` when there is none, or `runtime` outside of one.
    pub async fn open(config: Config) -> Result<Self> {
        in_a_runtime()?;
        let client = connected(&config).await?;
        let Config { address, operation_timeout, remembered_keys, .. } = config;
        let table = Table::new(client, address.table, operation_timeout, remembered_keys);
        let cas = Cas::new(table).slack(config.slack).retries(config.retries.validated()?);
        Ok(Self { cas })
    }

    /// Makes the table, billed by request, and lets DynamoDB remove what has expired; or checks that
    /// a table which exists is one for this store.
    ///
    /// # Errors
    /// `config_invalid` when the table is another kind of table, or something may not be done;
    /// an outage when DynamoDB cannot be reached.
    pub async fn migrate(config: Config) -> Result<()> {
        in_a_runtime()?;
        let client = connected(&config).await?;
        let work: BoxFuture<'_, _> = Box::pin(schema::migrate(&client, &config.address.table));
        work.await
    }

    /// What is wrong or unwise about the table, in plain words; nothing when all is well.
    ///
    /// # Errors
    /// As [`DynamoDb::migrate`], also when there is no table.
    pub async fn inspect(config: Config) -> Result<Vec<String>> {
        in_a_runtime()?;
        let client = connected(&config).await?;
        let work: BoxFuture<'_, _> = Box::pin(schema::inspect(&client, &config.address.table));
        work.await
    }
}

impl DynamoDb {
    /// How many writes lost a race to another process so far.
    #[must_use]
    pub fn lost_races(&self) -> u64 {
        self.cas.lost_races()
    }
}

/// Boxed, for the futures of Amazon's client are deep.
fn connected(config: &Config) -> BoxFuture<'_, Result<Client>> {
    Box::pin(client(config))
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
