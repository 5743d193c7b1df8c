//! Connections to the server, and what the tasks of one store share.
//!
//! The store uses no named statement and no session setting. Any transaction may therefore run on
//! any connection, as it does behind a pooler in transaction mode.

use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::Client;
use tollgate_core::store::round::IdShares;
use tollgate_core::store::{Jitter, LastAnswer};
use tollgate_core::{Code, Error, Result};

use crate::config::Config;
use crate::error::QueryError;
use crate::forget::Forgetting;
use crate::names::Names;
use crate::request_ids::RequestIdCount;
use crate::schema;
use crate::sql::Sql;
use crate::tls::Tls;

/// Bounds a migration, which may have to wait for another process that migrates.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(30);

/// An answer that is older says little about the server.
const ANSWER_KEPT: Duration = Duration::from_secs(1);

/// What the tasks of one store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) names: Names,
    pub(crate) sql: Sql,
    pub(crate) request_ids: RequestIdCount,
    pub(crate) id_shares: IdShares,
    pub(crate) forgetting: Forgetting,
    pub(crate) jitter: Jitter,
    tls: Tls,
    /// Set once the tables were found to have the version that this code needs.
    schema_checked: OnceCell<()>,
    /// Round trips that decided or read.
    pub(crate) round_trips: AtomicU64,
    /// When the last answer came, and how long it took.
    answered: Mutex<Option<(Instant, Duration)>>,
}

impl Shared {
    /// # Errors
    /// `config_invalid` naming the setting that is not accepted.
    pub(crate) fn new(config: Config) -> Result<Arc<Self>> {
        config.validate()?;
        let names = Names::new(&config.schema, &config.table)?;
        Ok(Arc::new(Self {
            tls: Tls::new(&config.address)?,
            sql: Sql::new(&config, &names),
            request_ids: RequestIdCount::new(config.max_request_ids),
            id_shares: IdShares::new(usize::try_from(config.max_request_ids).unwrap_or(usize::MAX)),
            forgetting: Forgetting::default(),
            jitter: Jitter::new(),
            schema_checked: OnceCell::new(),
            round_trips: AtomicU64::new(0),
            answered: Mutex::default(),
            names,
            config,
        }))
    }

    /// The server has answered what was begun then.
    pub(crate) fn note_answer(&self, begun: Instant) {
        let now = Instant::now();
        let answered = Some((now, now.saturating_duration_since(begun)));
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) = answered;
    }

    /// The last answer, if it came lately.
    pub(crate) fn last_answer(&self) -> Option<LastAnswer> {
        let (at, took) = (*self.answered.lock().unwrap_or_else(PoisonError::into_inner))?;
        (at.elapsed() < ANSWER_KEPT).then(|| LastAnswer::new(self.config.address.server(), took))
    }

    /// Connects, and creates or checks the tables the first time.
    ///
    /// # Errors
    /// Marked as not sent: nothing was charged.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let connection = self.dial().await?;
        self.schema_checked
            .get_or_try_init(|| schema::ensure(self, &connection))
            .await
            .map_err(Error::not_sent)?;
        Ok(connection)
    }

    /// Connects without looking at the tables.
    async fn dial(&self) -> Result<Connection> {
        let dialled = timeout(
            self.config.connect_timeout,
            self.config.address.driver.connect(self.tls.clone()),
        );
        let (client, driver) = match dialled.await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return Err(QueryError::from(error).into_error().not_sent()),
            Err(_) => {
                let message = "connecting to PostgreSQL took too long";
                return Err(Error::new(Code::StoreUnavailable, message).not_sent());
            }
        };
        // The error with which it ends is also the error of every pending query.
        let task = tokio::spawn(async move { drop(driver.await) });
        Ok(Connection { client, task })
    }

    /// Creates or migrates the tables now.
    pub(crate) async fn migrate(&self) -> Result<()> {
        let connection = self.dial().await?;
        self.migrate_over(&connection).await?;
        // Fails only if it is set already.
        let _ = self.schema_checked.set(());
        Ok(())
    }

    pub(crate) async fn migrate_over(&self, connection: &Connection) -> Result<()> {
        within(MIGRATION_TIMEOUT, schema::migrate(self, connection)).await
    }
}

/// Bounds an operation that charges nothing.
pub(crate) async fn within<T>(
    limit: Duration,
    operation: impl Future<Output = Result<T, QueryError>>,
) -> Result<T> {
    bounded(limit, operation).await.map_err(QueryError::into_error)
}

/// Bounds an operation. One that takes longer counts as a lost connection.
pub(crate) async fn bounded<T>(
    limit: Duration,
    operation: impl Future<Output = Result<T, QueryError>>,
) -> Result<T, QueryError> {
    timeout(limit, operation).await.unwrap_or_else(|_| Err(QueryError::timeout()))
}

/// A connection. Dropping it closes the socket at once, even while a query is pending.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    task: JoinHandle<()>,
}

impl Connection {
    pub(crate) fn is_open(&self) -> bool {
        !self.client.is_closed()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}
