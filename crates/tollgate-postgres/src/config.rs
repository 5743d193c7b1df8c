//! How the store is set up: where the server is, what its tables are called, what may be lost.

use core::fmt;
use core::time::Duration;

use tollgate_core::store::Retries;
use tollgate_core::{Error, Micros, Result};

use crate::audit::Retention;
use crate::names::Names;
use crate::url::{Address, parse};

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_SLACK: Duration = Duration::from_secs(60);
const DEFAULT_SWEEP_EVERY: Duration = Duration::from_secs(60);
const DEFAULT_MAX_REQUEST_IDS: u64 = 1_000_000;
/// Two rounds in flight: one runs in the database while the other is on its way.
const DEFAULT_CONNECTIONS: usize = 2;
const CONNECTIONS_MAX: usize = 64;

/// What a crash may lose of what was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: the answer comes after the commit is on disk, as far as the server is set up to
    /// put it there (`fsync`, and its own `synchronous_commit`, which is left as it is).
    #[default]
    Full,
    /// A crash of the server loses at most the last moments (three times `wal_writer_delay`, 0.6 s
    /// by default). Never a part of an admission, and nothing when only this process crashes.
    Relaxed,
    /// A crash of the server empties the tables; standbys have none of it. Nothing is lost when the
    /// server is stopped in an orderly way. Decided when the tables are made.
    Unlogged,
}

/// The settings of a [`Postgres`](crate::Postgres) store.
#[derive(Clone)]
pub struct Config {
    pub(crate) address: Address,
    pub(crate) names: Names,
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

impl Config {
    /// The settings for a server: `postgres://user:password@host:port/database`.
    ///
    /// `sslmode` is one of `disable`, `prefer` (the default: encrypted if the server can, without
    /// checking who it is), `require`, `verify-ca` and `verify-full`. The last three are the same
    /// here, and check the certificate and the name; `sslrootcert` names a file of certificates to
    /// trust instead of those of the operating system. `connect_timeout` is in whole seconds, as libpq
    /// has it; `operation_timeout_ms` is how long one round trip may take.
    ///
    /// # Errors
    /// `config_invalid` naming `url` or the parameter at fault. The message never repeats the url.
    pub fn new(url: &str) -> Result<Self> {
        let address = parse(url)?;
        let connect_timeout = address.driver.get_connect_timeout().copied();
        let operation_timeout = address.operation_timeout;
        Ok(Self {
            address,
            names: Names::new("tollgate", "limits")?,
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

    /// The schema and the first part of the tables' names, `tollgate` and `limits` by default. They
    /// are quoted, so any name will do; what starts with `table` in that schema belongs to the store.
    ///
    /// # Errors
    /// `config_invalid` naming `schema` or `table` when one is empty, too long or holds a NUL.
    pub fn tables(mut self, schema: &str, table: &str) -> Result<Self> {
        self.names = Names::new(schema, table)?;
        Ok(self)
    }

    /// How many connections decide, 2 by default; peeks and the sweep use one more each.
    ///
    /// # Errors
    /// `config_invalid` naming `connections` unless it is 1 to 64.
    pub fn connections(mut self, connections: usize) -> Result<Self> {
        if !(1..=CONNECTIONS_MAX).contains(&connections) {
            let accepted = format!("is {connections}; accepted: 1 to {CONNECTIONS_MAX}");
            return Err(Error::config("connections", accepted));
        }
        self.connections = connections;
        Ok(self)
    }

    /// How long connecting may take, 200 ms by default.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long one round trip may take before its connection is given up, 1 s by default. The
    /// server is told to hold no lock longer for a client that has gone silent.
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

    /// Whether the store makes and changes its tables by itself, as it does by default. Without,
    /// somebody must run [`Postgres::migrate`](crate::Postgres::migrate).
    #[must_use]
    pub const fn migrates(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// How long a state is kept after it means nothing any more, 60 s by default: the largest step
    /// back of the database's clock that is covered, a failover to another server included.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = micros(slack);
        self
    }

    /// How long to rest between two sweeps for expired rows, 60 s by default; `None` never sweeps.
    #[must_use]
    pub const fn sweep_every(mut self, every: Option<Duration>) -> Self {
        self.sweep_every = every;
        self
    }

    /// Also decides by readings of callers ([`TimeSource::Given`](tollgate_core::store::TimeSource::Given)), which are
    /// `unsupported` otherwise. For tests: a limiter asks for the database's clock. Such a store never
    /// sweeps, because rows of another time would seem expired.
    #[must_use]
    pub const fn accepts_readings(mut self) -> Self {
        self.accepts_readings = true;
        self.sweep_every = None;
        self
    }

    /// How many request ids are remembered, 1,000,000 by default; more get `queue_full`. A
    /// process learns of the ids of others when it sweeps, and when the bound seems to be reached: until
    /// then several of them together may exceed it.
    #[must_use]
    pub const fn max_request_ids(mut self, ids: u64) -> Self {
        self.max_request_ids = ids;
        self
    }

    /// Writes every decision into a table, in the transaction that makes it; off by default.
    #[must_use]
    pub const fn audit(mut self, retention: Retention) -> Self {
        self.audit = Some(retention);
        self
    }

    /// What a round that met a conflict does; the usual by default.
    #[must_use]
    pub const fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }
}

/// Without the address, which holds a password.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("names", &self.names)
            .field("connections", &self.connections)
            .field("durability", &self.durability)
            .field("audit", &self.audit)
            .finish_non_exhaustive()
    }
}

pub(crate) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_how_long_anything_may_take() {
        let of = |url| {
            let config = Config::new(url).unwrap();
            (config.connect_timeout, config.operation_timeout)
        };
        let both = "postgres://db/app?connect_timeout=7&operation_timeout_ms=250";
        assert_eq!(of(both), (Duration::from_secs(7), Duration::from_millis(250)));
        let usual = (DEFAULT_CONNECT_TIMEOUT, DEFAULT_OPERATION_TIMEOUT);
        assert_eq!(of("postgres://db/app"), usual);
    }
}
