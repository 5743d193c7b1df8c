//! The settings of the store.

use core::str::FromStr;
use core::time::Duration;

use tokio_postgres::config::SslMode;
use tollgate_core::store::Retries;
use tollgate_core::store::parameters::{
    Parameter, ParameterSpec, filled, flag, ms, ms_or_off, set_known, whole, word,
};
use tollgate_core::{Error, Micros, Result};

use crate::audit::Retention;
use crate::names::{SCHEMA_MAX_BYTES, TABLE_MAX_BYTES};
use crate::url::{Address, parse};

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_SLACK: Duration = Duration::from_secs(60);
const DEFAULT_SWEEP_EVERY: Duration = Duration::from_secs(60);
const DEFAULT_MAX_REQUEST_IDS: u64 = u64::MAX;
/// Two rounds at once: one runs in the database while the other is on the network.
const DEFAULT_CONNECTIONS: usize = 2;
const CONNECTIONS_MAX: usize = 64;
const TIMEOUT_MAX_MS: u64 = 600_000;
const DAY: Duration = Duration::from_secs(86_400);

const PARAMETERS: &[Parameter<Config>] = &[
    Parameter::new(
        "sslmode",
        "prefer",
        "disable, prefer, require, verify-ca, verify-full",
        "encryption: the last three all verify the certificate and the name of the host",
        |config, text| {
            let verified = SslMode::Require;
            let words = [
                ("disable", SslMode::Disable),
                ("prefer", SslMode::Prefer),
                ("require", verified),
                ("verify-ca", verified),
                ("verify-full", verified),
            ];
            config.address.driver.ssl_mode(word(text, &words)?);
            Some(())
        },
    ),
    Parameter::new(
        "sslrootcert",
        "",
        "a PEM file",
        "authorities of certificates, instead of those of the operating system",
        |config, text| filled(text).map(|file| config.address.root_file = Some(file)),
    ),
    Parameter::new(
        "operation_timeout_ms",
        "1000",
        "1 to 600000",
        "how long one round trip may take before its connection is closed",
        |config, text| {
            let ms = whole(text, 1..=TIMEOUT_MAX_MS);
            ms.map(|ms| config.operation_timeout = Duration::from_millis(ms))
        },
    ),
    Parameter::new("connections", "2", "1 to 64", "how many connections decide", |config, text| {
        whole(text, 1..=CONNECTIONS_MAX as u64).map(|n| config.connections = n)
    }),
    Parameter::new(
        "schema",
        "tollgate",
        "a name of up to 63 bytes",
        "the schema of the tables",
        |config, text| name(text, SCHEMA_MAX_BYTES).map(|schema| config.schema = schema),
    ),
    Parameter::new(
        "table",
        "limits",
        "a name of up to 43 bytes",
        "the table of states, whose name begins the names of the other tables",
        |config, text| name(text, TABLE_MAX_BYTES).map(|table| config.table = table),
    ),
    Parameter::new(
        "durability",
        "full",
        "full, relaxed, unlogged",
        "what a crash of the server may lose: nothing, the last moments, or everything",
        |config, text| {
            let words = [
                ("full", Durability::Full),
                ("relaxed", Durability::Relaxed),
                ("unlogged", Durability::Unlogged),
            ];
            word(text, &words).map(|durability| config.durability = durability)
        },
    ),
    Parameter::new(
        "migrates",
        "true",
        "true, false",
        "whether the store creates and migrates its tables; else `tollgate migrate` does",
        |config, text| flag(text).map(|migrates| config.migrates = migrates),
    ),
    Parameter::new(
        "max_request_ids",
        "",
        "a whole number",
        "how many request ids are stored, about; then older ones are forgotten; no bound if absent",
        |config, text| whole(text, 0..=u64::MAX).map(|ids| config.max_request_ids = ids),
    ),
    Parameter::new(
        "audit",
        "",
        "forever, or a number of days up to 365000",
        "writes every decision to a table, and keeps it that long; off if absent",
        |config, text| {
            let retention = match text {
                "forever" => Some(Retention::ForEver),
                days => whole(days, 1..=365_000).map(|days: u32| Retention::For(DAY * days)),
            };
            retention.map(|retention| config.audit = Some(retention))
        },
    ),
    Parameter::new(
        "slack_ms",
        "60000",
        "milliseconds",
        "how long a state is kept after it means the same as none: the largest step back of the \
         clock of the database",
        |config, text| ms(text).map(|slack| config.slack = micros(slack)),
    ),
    Parameter::new(
        "sweep_every_ms",
        "60000",
        "milliseconds, or 0 for never",
        "the pause between two sweeps for expired rows",
        |config, text| ms_or_off(text).map(|pause| config.sweep_every = pause),
    ),
];

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
/// The URL is `postgres://user:password@host:port/database`, with [`parameters`](Self::parameters)
/// such as `?sslmode=verify-full`, and those of libpq that the driver has: `connect_timeout` in
/// whole seconds, `application_name` and others.
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
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut config = Self {
            address: Address { driver: tokio_postgres::Config::new(), root_file: None },
            schema: "tollgate".to_owned(),
            table: "limits".to_owned(),
            connections: DEFAULT_CONNECTIONS,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            operation_timeout: DEFAULT_OPERATION_TIMEOUT,
            durability: Durability::Full,
            migrates: true,
            slack: micros(DEFAULT_SLACK),
            sweep_every: Some(DEFAULT_SWEEP_EVERY),
            accepts_readings: false,
            max_request_ids: DEFAULT_MAX_REQUEST_IDS,
            audit: None,
            retries: Retries::default(),
        };
        let of_driver = set_known(&mut config, query, PARAMETERS)?;
        let ssl_mode = config.address.driver.get_ssl_mode();
        config.address.driver = parse(base, &of_driver)?;
        config.address.driver.ssl_mode(ssl_mode);
        if let Some(timeout) = config.address.driver.get_connect_timeout() {
            config.connect_timeout = *timeout;
        }
        Ok(config)
    }
}

impl Config {
    /// The parameters of the URL that are not those of libpq, and `sslmode`.
    pub fn parameters() -> impl Iterator<Item = ParameterSpec> {
        PARAMETERS.iter().map(Parameter::spec)
    }

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

    /// How many request ids are stored; without a bound by default. Then the oldest are forgotten
    /// in the background, or more get `queue_full`, as the limit says. A process counts the ids of
    /// other processes when it sweeps and when the bound seems to be reached. Until then several
    /// processes together may exceed it.
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

fn name(text: &str, max_bytes: usize) -> Option<String> {
    filled(text).filter(|name| name.len() <= max_bytes)
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

    #[test]
    fn parameters_of_the_store_and_of_libpq_are_accepted() {
        let url = "postgres://me:s3cret@db:7/app?sslmode=verify-full&connect_timeout=1\
                   &sslrootcert=%2Fca.pem&audit=30&durability=unlogged&schema=a%20b&table=t\
                   &connections=3&migrates=false&max_request_ids=5&slack_ms=10&sweep_every_ms=0";
        let config: Config = url.parse().unwrap();
        let driver = &config.address.driver;
        assert_eq!(driver.get_ssl_mode(), SslMode::Require);
        assert_eq!((driver.get_ports(), driver.get_dbname()), (&[7][..], Some("app")));
        assert_eq!(driver.get_application_name(), Some("tollgate"));
        assert_eq!(config.address.root_file.as_deref(), Some("/ca.pem"));
        assert_eq!(config.audit, Some(Retention::For(30 * DAY)));
        assert_eq!(config.durability, Durability::Unlogged);
        assert_eq!((config.schema.as_str(), config.table.as_str()), ("a b", "t"));
        assert_eq!((config.connections, config.migrates, config.max_request_ids), (3, false, 5));
        assert_eq!((config.slack, config.sweep_every), (10_000, None));
        let plain: Config = "postgresql://db/app?audit=forever".parse().unwrap();
        assert_eq!(plain.address.driver.get_ssl_mode(), SslMode::Prefer);
        assert_eq!(plain.audit, Some(Retention::ForEver));
    }

    #[test]
    fn errors_name_the_parameter_and_never_contain_its_value() {
        let invalid = [
            ("s3cret", "url"),
            ("mysql://me:s3cret@db", "url"),
            ("postgres://me:s3cret@db:port/app", "url"),
            ("postgres://me:s3cret@db/app?nonsense=s3cret", "url"),
            ("postgres:///app", "url"),
            ("postgres://me:s3cret@db/app?sslmode=s3cret", "sslmode"),
            ("postgres://me:s3cret@db/app?sslrootcert=%zzs3cret", "sslrootcert"),
            ("postgres://me:s3cret@db/app?operation_timeout_ms=0", "operation_timeout_ms"),
            ("postgres://me:s3cret@db/app?operation_timeout_ms=600001", "operation_timeout_ms"),
            ("postgres://me:s3cret@db/app?operation_timeout_ms=s3cret", "operation_timeout_ms"),
            ("postgres://me:s3cret@db/app?connections=65", "connections"),
            ("postgres://me:s3cret@db/app?audit=s3cret", "audit"),
            ("postgres://me:s3cret@db/app?durability=s3cret", "durability"),
        ];
        for (url, field) in invalid {
            let error = url.parse::<Config>().map(|_| ()).unwrap_err();
            assert_eq!(error.field(), Some(field), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        let shown = format!("{:?}", "postgres://me:s3cret@db/app".parse::<Config>().unwrap());
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
