//! A connection, and what all workers of a store share to make one.
//!
//! No named statement and no setting of a session is ever used: any transaction may run on another
//! connection, as it does behind a pooler in transaction mode.

use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::Client;
use tollgate_core::{Code, Error, Result};

use crate::config::Config;
use crate::fault::Fault;
use crate::ids::Ids;
use crate::schema;
use crate::sql::Sql;
use crate::tls::Tls;

/// Making tables may have to wait for others who do the same.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(30);

/// What all workers of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) sql: Sql,
    pub(crate) ids: Ids,
    tls: Tls,
    /// Set once the tables are known to be as this version needs them.
    ready: OnceCell<()>,
    /// How often the database was asked to decide or to look.
    pub(crate) trips: AtomicU64,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            tls: Tls::new(&config.address)?,
            sql: Sql::new(&config),
            ids: Ids::new(config.max_request_ids),
            ready: OnceCell::new(),
            trips: AtomicU64::new(0),
            config,
        }))
    }

    /// Connects, and sees to the tables the first time.
    ///
    /// # Errors
    /// Marked as unsent: nothing was charged.
    pub(crate) async fn connect(&self) -> Result<Link> {
        let link = self.dial().await?;
        self.ready
            .get_or_try_init(|| schema::ensure(self, &link))
            .await
            .map_err(Error::not_sent)?;
        Ok(link)
    }

    /// Connects, whatever the tables are like.
    pub(crate) async fn dial(&self) -> Result<Link> {
        let dialled = timeout(
            self.config.connect_timeout,
            self.config.address.driver.connect(self.tls.clone()),
        );
        let (client, connection) = match dialled.await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return Err(Fault::from(error).into_error().not_sent()),
            Err(_) => {
                let message = "connecting to PostgreSQL took too long";
                return Err(Error::new(Code::StoreUnavailable, message).not_sent());
            }
        };
        // How it ended is seen by whoever waits for an answer.
        let task = tokio::spawn(async move { drop(connection.await) });
        Ok(Link { client, task })
    }

    /// Makes and changes the tables now.
    pub(crate) async fn migrate(&self) -> Result<()> {
        let link = self.dial().await?;
        self.migrate_over(&link).await?;
        // Somebody may have been here before: that is as good.
        let _ = self.ready.set(());
        Ok(())
    }

    pub(crate) async fn migrate_over(&self, link: &Link) -> Result<()> {
        within(MIGRATION_TIMEOUT, schema::migrate(self, link)).await
    }
}

/// Bounds an act that charges nothing.
pub(crate) async fn within<T>(
    limit: Duration,
    act: impl Future<Output = Result<T, Fault>>,
) -> Result<T> {
    match timeout(limit, act).await {
        Ok(done) => done.map_err(Fault::into_error),
        Err(_) => Err(Fault::timeout().into_error()),
    }
}

/// A connection. Dropping it closes it at once, whatever is under way.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: Client,
    task: JoinHandle<()>,
}

impl Link {
    pub(crate) fn is_alive(&self) -> bool {
        !self.client.is_closed()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}
