//! The settings of the store.

use core::fmt::Write as _;
use core::str::FromStr;
use core::time::Duration;
use std::path::{Path, PathBuf};

use tollgate_core::store::parameters::{
    Parameter, ParameterSpec, flag, ms, ms_or_off, set_all, whole, word,
};
use tollgate_core::text::percent_decoded;
use tollgate_core::{Error, Micros, Result};

const SCHEME: &str = "sqlite:";
const DEFAULT_SLACK: Duration = Duration::from_secs(60);
const DEFAULT_SWEEP_EVERY: Duration = Duration::from_secs(60);
const DEFAULT_MAX_REQUEST_IDS: u64 = 1_000_000;
/// The smallest bound: the tables and both logs.
const MIN_MAX_BYTES: u64 = 16 << 20;
/// Below the default deadline of a limiter (100 ms), so that contention is reported as such.
const DEFAULT_LOCK_TIMEOUT: Duration = Duration::from_millis(80);

/// What a crash may lose of what was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: the answer is sent after the commit is on disk, as far as the disk reports that
    /// correctly.
    #[default]
    Full,
    /// A crash of the machine or a loss of power may lose the commits since the last checkpoint;
    /// never a part of an admission. A crash of a process loses nothing.
    Relaxed,
}

const PARAMETERS: &[Parameter<Config>] = &[
    Parameter::new(
        "durability",
        "full",
        "full, relaxed",
        "what a crash of the machine may lose: nothing, or the commits since the last checkpoint",
        |config, text| {
            let words = [("full", Durability::Full), ("relaxed", Durability::Relaxed)];
            word(text, &words).map(|durability| config.durability = durability)
        },
    ),
    Parameter::new(
        "lock_timeout_ms",
        "80",
        "1 to 600000",
        "how long an admission waits for other processes that write",
        |config, text| {
            let ms = whole(text, 1..=600_000);
            ms.map(|ms| config.lock_timeout = Duration::from_millis(ms))
        },
    ),
    Parameter::new(
        "max_bytes",
        "",
        "16777216 (16 MiB) and more",
        "how large the file may become; without a bound if absent",
        |config, text| {
            let bytes = whole(text, MIN_MAX_BYTES..=u64::MAX);
            bytes.map(|bytes| config.max_bytes = Some(bytes))
        },
    ),
    Parameter::new(
        "max_request_ids",
        "1000000",
        "a whole number",
        "how many request ids are stored, by all processes together; then older ones are forgotten",
        |config, text| whole(text, 0..=u64::MAX).map(|ids| config.max_request_ids = ids),
    ),
    Parameter::new(
        "migrates",
        "true",
        "true, false",
        "whether the store creates and migrates its tables; else `tollgate migrate` does",
        |config, text| flag(text).map(|migrates| config.migrates = migrates),
    ),
    Parameter::new(
        "slack_ms",
        "60000",
        "milliseconds",
        "how long a value is kept after it means the same as none: the largest skew of clocks",
        |config, text| ms(text).map(|slack| config.slack = micros(slack)),
    ),
    Parameter::new(
        "sweep_every_ms",
        "60000",
        "milliseconds, or 0 for never",
        "the pause between two sweeps for expired values",
        |config, text| ms_or_off(text).map(|pause| config.sweep_every = pause),
    ),
];

/// The settings of a [`Sqlite`](crate::Sqlite) store, from a path or parsed from a URL.
///
/// The URL is `sqlite:limits.db`, `sqlite:/var/lib/app/limits.db` or
/// `sqlite:///var/lib/app/limits.db`, with [`parameters`](Self::parameters) such as
/// `?durability=relaxed`. A `?` or `%` in the path is percent-encoded. Parsing fails with
/// `config_invalid` naming `url`, `path` or the parameter.
///
/// ```
/// use tollgate_sqlite::{Config, Durability};
///
/// # fn main() -> tollgate_core::Result<()> {
/// let config: Config = "sqlite:limits.db?durability=relaxed".parse()?;
/// assert_eq!(config, Config::new("limits.db").durability(Durability::Relaxed));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) migrates: bool,
    pub(crate) slack: Micros,
    pub(crate) sweep_every: Option<Duration>,
    pub(crate) max_request_ids: u64,
    pub(crate) lock_timeout: Duration,
    pub(crate) max_bytes: Option<u64>,
}

impl FromStr for Config {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let rest = url.strip_prefix(SCHEME).ok_or_else(|| {
            Error::config("url", "has another scheme; accepted: `sqlite:` and a path")
        })?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = match path.strip_prefix("//") {
            Some(local) if local.starts_with('/') => local,
            Some(_) => {
                let message = "names a host; accepted: `sqlite:path` or `sqlite:///path`";
                return Err(Error::config("url", message));
            }
            None => path,
        };
        let mut config = Self::new(decoded(path)?);
        config.check_path()?;
        set_all(&mut config, query, PARAMETERS)?;
        Ok(config)
    }
}

impl Config {
    /// The settings of a file, which is created if it is missing. Its folder must exist, on a local
    /// disk: more files are created beside it (`-wal`, `-shm`, `-turn`).
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            durability: Durability::Full,
            migrates: true,
            slack: micros(DEFAULT_SLACK),
            sweep_every: Some(DEFAULT_SWEEP_EVERY),
            max_request_ids: DEFAULT_MAX_REQUEST_IDS,
            lock_timeout: DEFAULT_LOCK_TIMEOUT,
            max_bytes: None,
        }
    }

    /// The parameters of the URL.
    pub fn parameters() -> impl Iterator<Item = ParameterSpec> {
        PARAMETERS.iter().map(Parameter::spec)
    }

    /// Refuses names that are not files to SQLite.
    pub(crate) fn check_path(&self) -> Result<()> {
        let text = self.path.to_string_lossy();
        if text.is_empty() {
            return Err(Error::config("path", "is empty; accepted: the path of a file"));
        }
        if text.starts_with(":memory:") {
            let message = "is in memory; accepted: the path of a file (or the memory store)";
            return Err(Error::config("path", message));
        }
        if text.contains('\0') {
            return Err(Error::config("path", "contains a NUL; accepted: the path of a file"));
        }
        Ok(())
    }

    /// What a crash may lose: nothing by default.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether the store creates and migrates its tables, as it does by default. Otherwise
    /// [`Sqlite::migrate`](crate::Sqlite::migrate) has to be called.
    #[must_use]
    pub const fn migrates(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// How long a value is kept after it means the same as none, 60 s by default: the largest skew
    /// between the clocks of processes, and the largest step back, that is covered.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = micros(slack);
        self
    }

    /// The pause between two sweeps for expired values, 60 s by default. `None` disables the sweep.
    #[must_use]
    pub const fn sweep_every(mut self, interval: Option<Duration>) -> Self {
        self.sweep_every = interval;
        self
    }

    /// How many request ids are stored, by all processes together; 1,000,000 by default. More get
    /// `queue_full`.
    #[must_use]
    pub const fn max_request_ids(mut self, ids: u64) -> Self {
        self.max_request_ids = ids;
        self
    }

    /// How long an admission waits for other processes that write, 80 ms by default; then it gets
    /// `conflict_exhausted`. Set it below the deadline of the limiter.
    #[must_use]
    pub const fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// How large the file may become, without a bound by default; at least 16 MiB. An admission
    /// that does not fit gets `store_full`, and what has expired is deleted at once. The
    /// write-ahead log beside the file needs some space more.
    #[must_use]
    pub const fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(if bytes > MIN_MAX_BYTES { bytes } else { MIN_MAX_BYTES });
        self
    }

    /// The path of the write-ahead log.
    pub(crate) fn wal_path(&self) -> PathBuf {
        beside(&self.path, "-wal")
    }

    /// The path of the fairness lock.
    pub(crate) fn fairness_lock_path(&self) -> PathBuf {
        beside(&self.path, "-turn")
    }
}

/// A file beside the database, named like those of SQLite.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    // Writing to a string cannot fail.
    let _ = write!(name, "{suffix}");
    PathBuf::from(name)
}

fn decoded(text: &str) -> Result<String> {
    percent_decoded(text).ok_or_else(|| Error::config("url", "is not percent-encoded UTF-8"))
}

pub(crate) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        for (url, path) in [
            ("sqlite:limits.db", "limits.db"),
            ("sqlite:./limits.db", "./limits.db"),
            ("sqlite:/var/lib/limits.db", "/var/lib/limits.db"),
            ("sqlite:///var/lib/limits.db", "/var/lib/limits.db"),
            ("sqlite:a%3Fb%25.db?durability=full", "a?b%.db"),
        ] {
            assert_eq!(url.parse::<Config>().unwrap(), Config::new(path), "{url}");
        }
        let relaxed = Config::new("a").durability(Durability::Relaxed);
        let both = relaxed.lock_timeout(Duration::from_millis(500));
        let url = "sqlite:a?durability=relaxed&lock_timeout_ms=500";
        assert_eq!(url.parse::<Config>().unwrap(), both);
        let kept = Config::new("a").max_request_ids(7).migrates(false);
        let kept = kept.slack(Duration::from_secs(1)).sweep_every(None);
        let url = "sqlite:a?max_request_ids=7&migrates=false&slack_ms=1000&sweep_every_ms=0";
        assert_eq!(url.parse::<Config>().unwrap(), kept);
        let bounded = Config::new("a").max_bytes(1 << 30);
        assert_eq!("sqlite:a?max_bytes=1073741824".parse::<Config>().unwrap(), bounded);
    }

    #[test]
    fn invalid_urls_are_refused_by_name() {
        for (url, field) in [
            ("postgres:a", "url"),
            ("sqlite:", "path"),
            ("sqlite::memory:", "path"),
            ("sqlite://host/limits.db", "url"),
            ("sqlite:a%", "url"),
            ("sqlite:a%4", "url"),
            ("sqlite:a%+4", "url"),
            ("sqlite:%FF", "url"),
            ("sqlite:a%00", "path"),
            ("sqlite:a?durability=none", "durability"),
            ("sqlite:a?durability", "durability"),
            ("sqlite:a?slack_ms=0", "slack_ms"),
            ("sqlite:a?sweep_every_ms=1m", "sweep_every_ms"),
            ("sqlite:a?migrates=no", "migrates"),
            ("sqlite:a?max_request_ids=-1", "max_request_ids"),
            ("sqlite:a?mode=ro", "url"),
            ("sqlite:a?lock_timeout_ms=0", "lock_timeout_ms"),
            ("sqlite:a?lock_timeout_ms=1s", "lock_timeout_ms"),
            ("sqlite:a?max_bytes=1000", "max_bytes"),
            ("sqlite:a?max_bytes=1GiB", "max_bytes"),
        ] {
            let error = url.parse::<Config>().unwrap_err();
            assert_eq!(error.field(), Some(field), "{url}: {error}");
            assert_eq!(error.code(), tollgate_core::Code::ConfigInvalid, "{url}");
        }
    }
}
