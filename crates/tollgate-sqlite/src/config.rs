//! How the store is set up: which file, what may be lost, how long to wait for others.

use core::fmt::Write as _;
use core::time::Duration;
use std::path::{Path, PathBuf};

use tollgate_core::text::percent_decoded;
use tollgate_core::{Error, Micros, Result};

const SCHEME: &str = "sqlite:";
const DEFAULT_SLACK: Duration = Duration::from_secs(60);
const DEFAULT_SWEEP_EVERY: Duration = Duration::from_secs(60);
const DEFAULT_MAX_REQUEST_IDS: u64 = 1_000_000;
/// Below the deadline of a limiter (100 ms), so that those who give up do so together.
const DEFAULT_LOCK_TIMEOUT: Duration = Duration::from_millis(80);

/// What a crash may lose of what was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: the answer comes after the commit is on disk, as far as the disk tells the truth.
    #[default]
    Full,
    /// A crash of the machine, or a loss of power, may lose what was committed since the last
    /// checkpoint; never a part of an admission, and nothing when only processes crash.
    Relaxed,
}

/// The settings of a [`Sqlite`](crate::Sqlite) store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) migrates: bool,
    pub(crate) slack: Micros,
    pub(crate) sweep_every: Option<Duration>,
    pub(crate) max_request_ids: u64,
    pub(crate) lock_timeout: Duration,
}

impl Config {
    /// The settings for a file, which is made if it is not there. Its folder must be, and must be on a
    /// disk of this machine: files beside it belong to it (`-wal`, `-shm`, `-turn`).
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            durability: Durability::Full,
            migrates: true,
            slack: micros(DEFAULT_SLACK),
            sweep_every: Some(DEFAULT_SWEEP_EVERY),
            max_request_ids: DEFAULT_MAX_REQUEST_IDS,
            lock_timeout: DEFAULT_LOCK_TIMEOUT,
        }
    }

    /// The settings in an address: `sqlite:limits.db`, `sqlite:/var/lib/app/limits.db` or
    /// `sqlite:///var/lib/app/limits.db`, perhaps followed by `?durability=relaxed` or
    /// `?lock_timeout_ms=500` (joined by `&`). A `?` or `%` in the path is percent-encoded.
    ///
    /// # Errors
    /// `config_invalid` naming `url`, or the parameter at fault, and what is accepted.
    pub fn from_url(url: &str) -> Result<Self> {
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
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            config.set(pair)?;
        }
        Ok(config)
    }

    /// One parameter of an address.
    fn set(&mut self, pair: &str) -> Result<()> {
        let whole_ms = |text: &str| text.parse().ok().filter(|ms| (1..=600_000).contains(ms));
        match pair.split_once('=') {
            Some(("durability", "full")) => self.durability = Durability::Full,
            Some(("durability", "relaxed")) => self.durability = Durability::Relaxed,
            Some(("durability", _)) => {
                return Err(Error::config("durability", "accepted: full, relaxed"));
            }
            Some(("lock_timeout_ms", text)) => {
                let accepted = || Error::config("lock_timeout_ms", "accepted: 1 to 600000");
                let ms = whole_ms(text).ok_or_else(accepted)?;
                self.lock_timeout = Duration::from_millis(ms);
            }
            _ => {
                let message = "has an unknown parameter; accepted: durability, lock_timeout_ms";
                return Err(Error::config("url", message));
            }
        }
        Ok(())
    }

    /// Refuses names that mean something else than a file to SQLite.
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
            return Err(Error::config("path", "holds a NUL; accepted: the path of a file"));
        }
        Ok(())
    }

    /// What a crash may lose: nothing by default.
    #[must_use]
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether the store makes and changes its tables by itself, as it does by default. Without,
    /// somebody must run [`Sqlite::migrate`](crate::Sqlite::migrate).
    #[must_use]
    pub const fn migrates(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// How long a value is kept after it means nothing any more, 60 s by default: the largest skew
    /// between the clocks of processes, and the largest step back, that is covered.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = micros(slack);
        self
    }

    /// How long to rest between two sweeps for expired values, 60 s by default; `None` never sweeps.
    #[must_use]
    pub const fn sweep_every(mut self, every: Option<Duration>) -> Self {
        self.sweep_every = every;
        self
    }

    /// How many request ids are remembered, by all processes together; 1,000,000 by default. More get
    /// `queue_full`.
    #[must_use]
    pub const fn max_request_ids(mut self, ids: u64) -> Self {
        self.max_request_ids = ids;
        self
    }

    /// How long admissions wait for other processes that write, 80 ms by default; then they get
    /// `conflict_exhausted`. A limiter with a shorter deadline gets `queue_full` by then: a file that others
    /// write to is no outage.
    #[must_use]
    pub const fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// The file that processes take turns by.
    pub(crate) fn turn_path(&self) -> PathBuf {
        beside(&self.path, "-turn")
    }
}

/// A file beside the database, as SQLite names its own.
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
    fn addresses_name_files() {
        for (url, path) in [
            ("sqlite:limits.db", "limits.db"),
            ("sqlite:./limits.db", "./limits.db"),
            ("sqlite:/var/lib/limits.db", "/var/lib/limits.db"),
            ("sqlite:///var/lib/limits.db", "/var/lib/limits.db"),
            ("sqlite:a%3Fb%25.db?durability=full", "a?b%.db"),
        ] {
            assert_eq!(Config::from_url(url).unwrap(), Config::new(path), "{url}");
        }
        let relaxed = Config::new("a").durability(Durability::Relaxed);
        let patient = relaxed.lock_timeout(Duration::from_millis(500));
        let url = "sqlite:a?durability=relaxed&lock_timeout_ms=500";
        assert_eq!(Config::from_url(url).unwrap(), patient);
    }

    #[test]
    fn other_addresses_are_refused_by_name() {
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
            ("sqlite:a?durability", "url"),
            ("sqlite:a?mode=ro", "url"),
            ("sqlite:a?lock_timeout_ms=0", "lock_timeout_ms"),
            ("sqlite:a?lock_timeout_ms=1s", "lock_timeout_ms"),
        ] {
            let error = Config::from_url(url).unwrap_err();
            assert_eq!(error.field(), Some(field), "{url}: {error}");
            assert_eq!(error.code(), tollgate_core::Code::ConfigInvalid, "{url}");
        }
    }
}
