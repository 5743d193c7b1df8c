//! The settings of the store.

use core::str::FromStr;
use core::time::Duration;

use tollgate_core::store::Retries;
use tollgate_core::{Error, Micros, Result};

use crate::audit::Retention;
use crate::url::{Address, parse};

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_SLACK: Duration = Duration::from_secs(60);
const DEFAULT_SWEEP_EVERY: Duration = Duration::from_secs(60);
const DEFAULT_MAX_REQUEST_IDS: u64 = 1_000_000;
/// Two rounds at once: one runs in the database while the other is on the network.
const DEFAULT_CONNECTIONS: usize = 2;
const CONNECTIONS_MAX: usize = 64;

/// What a crash may lose of what was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: the answer is sent after the commit is on disk, as far as the server is configured
    /// to write it there (`fsync`, and `synchronous_commit`, which the store leaves unchanged).
    #[default]
    Full,
    /// A crash of the server may lose the commits of the last three `wal_writer_delay` (0.6 s by
    /// default); never a part of an admission. A crash of this process loses nothing.
    Relaxed,
    /// A crash of the server empties the tables, and standbys do not have them. An orderly shutdown
    /// loses nothing. Takes effect when the tables are created.
    Unlogged,
}

/// The settings of a [`Postgres`](crate::Postgres) store, parsed from a URL and refined by methods.
///
/// The URL is `postgres://user:password@host:port/database`, with these parameters:
/// - `sslmode`: `disable`; `prefer` (the default: encrypted if the server supports it, not
///   verified); `require`, `verify-ca` and `verify-full`, which all verify the certificate and the
///   host name.
/// - `sslrootcert`: a file of certificate authorities that replace those of the operating system.
/// - `connect_timeout` in whole seconds, as libpq defines it.
/// - `operation_timeout_ms`: how long one round trip may take.
///
/// Parsing fails with `config_invalid` naming `url` or the parameter. No message contains the URL.
/// Settings that methods change are validated by [`Postgres::open`](crate::Postgres::open).
///
/// ```
/// use std::time::Duration;
/// use tollgate_postgres::{Config, Durability};
///
/// # fn main() -> tollgate_core::Result<()> {
/// let config: Config = "postgres://app:secret@db.example.com/app?sslmode=verify-full".parse()?;
/// let config = config.durability(Durability::Relaxed).connect_timeout(Duration::from_secs(1));
/// assert!("mysql://db.example.com/app".parse::<Config>().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) address: Address,
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) operation_timeout: Duration,
    pub(crate) durability: Durability,
    pub(crate) migrates: bool,
    pub(crate) slack: Micros,
    pub(crate) sweep_every: Option<Duration>,
    pub(crate) accepts_readings: bool,
    pub(crate) max_request_ids: u64,
    pub(crate) audit: Option<Retention>,
    pub(crate) retries: Retries,
}

impl FromStr for Config {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let address = parse(url)?;
        let connect_timeout = address.driver.get_connect_timeout().copied();
        let operation_timeout = address.operation_timeout;
        Ok(Self {
            address,
            schema: "tollgate".to_owned(),
            table: "limits".to_owned(),
            connections: DEFAULT_CONNECTIONS,
            connect_timeout: connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
            operation_timeout: operation_timeout.unwrap_or(DEFAULT_OPERATION_TIMEOUT),
            durability: Durability::Full,
            migrates: true,
            slack: micros(DEFAULT_SLACK),
            sweep_every: Some(DEFAULT_SWEEP_EVERY),
            accepts_readings: false,
            max_request_ids: DEFAULT_MAX_REQUEST_IDS,
            audit: None,
            retries: Retries::default(),
        })
    }
}

impl Config {
    /// The schema, and the table of states, whose name begins the names of the other tables:
    /// `tollgate` and `limits` by default. Names are quoted, so any will do: the schema may have up
    /// to 63 bytes and the table up to 43. The store owns every table of the schema that starts
    /// with this name.
    #[must_use]
    pub fn tables(mut self, schema: &str, table: &str) -> Self {
        (self.schema, self.table) = (schema.to_owned(), table.to_owned());
        self
    }

    /// How many connections decide, 1 to 64, 2 by default. Each needs one more once a row that it
    /// needs was found locked by another session. Reads use one more, and so does the sweep.
    #[must_use]
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How long connecting may take, 200 ms by default.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long one round trip may take before its connection is closed, 1 s by default. The server
    /// ends transactions of a process that hangs after the same time.
    #[must_use]
    pub const fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    /// What a crash may lose: nothing by default.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether the store creates and migrates its tables, as it does by default. Otherwise
    /// [`Postgres::migrate`](crate::Postgres::migrate) has to be called.
    #[must_use]
    pub const fn migrates(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// How long a state is kept after it means the same as none, 60 s by default: the largest step
    /// back of the database's clock that is covered, also by a failover to another server.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = micros(slack);
        self
    }

    /// The pause between two sweeps for expired rows, 60 s by default. `None` disables the sweep.
    #[must_use]
    pub const fn sweep_every(mut self, interval: Option<Duration>) -> Self {
        self.sweep_every = interval;
        self
    }

    /// Also accepts readings of the caller's clock
    /// ([`TimeSource::Given`](tollgate_core::store::TimeSource::Given)), which are `unsupported`
    /// otherwise. For tests: a limiter uses the database's clock. Disables the sweep, which would
    /// take rows of another time for expired.
    #[must_use]
    pub const fn accepts_readings(mut self) -> Self {
        self.accepts_readings = true;
        self.sweep_every = None;
        self
    }

    /// How many request ids are stored, 1,000,000 by default; more get `queue_full`. A process
    /// counts the ids of other processes when it sweeps and when the bound seems to be reached.
    /// Until then several processes together may exceed it.
    #[must_use]
    pub const fn max_request_ids(mut self, ids: u64) -> Self {
        self.max_request_ids = ids;
        self
    }

    /// Writes every decision to a table, in the transaction that decides; off by default.
    #[must_use]
    pub const fn audit(mut self, retention: Retention) -> Self {
        self.audit = Some(retention);
        self
    }

    /// How often a round that met a conflict is retried, and after which wait.
    #[must_use]
    pub const fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// Checks the settings that do not come from the URL, except the names of the tables.
    ///
    /// # Errors
    /// `config_invalid` naming the setting and what is accepted.
    pub(crate) fn validate(&self) -> Result<()> {
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            let accepted = format!("is {}; accepted: 1 to {CONNECTIONS_MAX}", self.connections);
            return Err(Error::config("connections", accepted));
        }
        self.retries.validated().map(drop)
    }
}

pub(crate) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_come_from_the_url() {
        let of = |url: &str| {
            let config: Config = url.parse().unwrap();
            (config.connect_timeout, config.operation_timeout)
        };
        let both = "postgres://db/app?connect_timeout=7&operation_timeout_ms=250";
        assert_eq!(of(both), (Duration::from_secs(7), Duration::from_millis(250)));
        let usual = (DEFAULT_CONNECT_TIMEOUT, DEFAULT_OPERATION_TIMEOUT);
        assert_eq!(of("postgres://db/app"), usual);
    }
}
