//! The settings of the store.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::sync::Arc;

use tollgate_core::store::Retries;
use tollgate_core::store::parameters::{Parameter, ParameterSpec, filled, ms, set_all, whole};
use tollgate_core::{Clock, Error, Result, SystemClock};

use crate::url::{Address, parse};

/// The environment variable of Deno's tools.
const TOKEN: &str = "DENO_KV_ACCESS_TOKEN";
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_SLACK: Duration = Duration::from_secs(60);
const DEFAULT_MAX_REQUEST_IDS: usize = usize::MAX;

const PARAMETERS: &[Parameter<Config>] = &[
    Parameter::new(
        "ca",
        "",
        "a PEM file",
        "authorities of certificates, instead of those of the operating system",
        |config, text| filled(text).map(|file| config.address.ca = Some(file)),
    ),
    Parameter::new(
        "connect_timeout_ms",
        "200",
        "milliseconds",
        "how long connecting may take, with the TLS handshake",
        |config, text| ms(text).map(|timeout| config.connect_timeout = timeout),
    ),
    Parameter::new(
        "operation_timeout_ms",
        "1000",
        "milliseconds",
        "how long one request may take before its connection is closed",
        |config, text| ms(text).map(|timeout| config.operation_timeout = timeout),
    ),
    Parameter::new(
        "slack_ms",
        "60000",
        "milliseconds",
        "how long a value is kept after it means the same as none: the largest skew of clocks",
        |config, text| ms(text).map(|slack| config.slack = slack),
    ),
    Parameter::new(
        "max_request_ids",
        "",
        "a whole number",
        "how many request ids of this process may be stored, more are refused; no bound if absent",
        |config, text| whole(text, 0..=u64::MAX).map(|ids| config.max_request_ids = ids),
    ),
];

/// The settings of a [`DenoKv`](crate::DenoKv) store, parsed from a URL and refined by methods.
///
/// The URL is `denokv+https://host/path` or `denokv+http://host:port`. The access token may precede
/// the host (`denokv+https://token@host`), percent-encoded. [`parameters`](Self::parameters)
/// follow, such as `?ca=FILE`.
///
/// Parsing fails with `config_invalid` naming `url` or the parameter. No message contains the URL.
/// Settings that methods change are validated by [`DenoKv::open`](crate::DenoKv::open).
///
/// ```
/// use std::time::Duration;
/// use tollgate_denokv::Config;
///
/// # fn main() -> tollgate_core::Result<()> {
/// let config: Config = "denokv+https://kv.example.com".parse()?;
/// let config = config.token("secret").operation_timeout(Duration::from_millis(500));
/// assert!("https://kv.example.com".parse::<Config>().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Config {
    pub(crate) address: Address,
    pub(crate) connect_timeout: Duration,
    pub(crate) operation_timeout: Duration,
    pub(crate) slack: Duration,
    pub(crate) retries: Retries,
    pub(crate) max_request_ids: usize,
    pub(crate) reclaims: bool,
    pub(crate) clock: Arc<dyn Clock>,
}

impl FromStr for Config {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        let (address, query) = parse(url)?;
        let mut config = Self {
            address,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            operation_timeout: DEFAULT_OPERATION_TIMEOUT,
            slack: DEFAULT_SLACK,
            retries: Retries::default(),
            max_request_ids: DEFAULT_MAX_REQUEST_IDS,
            reclaims: true,
            clock: Arc::new(SystemClock::new()),
        };
        set_all(&mut config, query, PARAMETERS)?;
        Ok(config)
    }
}

impl Config {
    /// The parameters of the URL.
    pub fn parameters() -> impl Iterator<Item = ParameterSpec> {
        PARAMETERS.iter().map(Parameter::spec)
    }

    /// The access token of the database.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.address.token = Some(token.to_owned());
        self
    }

    /// Takes the token from the environment variable `DENO_KV_ACCESS_TOKEN`, unless there is one
    /// already.
    #[must_use]
    pub fn token_from_env(mut self) -> Self {
        let variable = || std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
        self.address.token = self.address.token.or_else(variable);
        self
    }

    /// How long connecting may take, with the TLS handshake; 200 ms by default.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long one request may take before its connection is closed, 1 s by default.
    #[must_use]
    pub const fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    /// How long a value is kept after it means the same as none, 60 s by default: the largest skew
    /// between the clocks of all processes and the server, and the largest step back, that is
    /// covered. It must exceed the time that a write may be under way.
    #[must_use]
    pub const fn slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }

    /// How often an admission that lost a race is retried, and after which wait.
    #[must_use]
    pub const fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// How many request ids of this process may be stored that have not expired; more get
    /// `queue_full`. The database cannot count them, so the bound holds for each process. No bound
    /// by default.
    #[must_use]
    pub const fn max_request_ids(mut self, ids: usize) -> Self {
        self.max_request_ids = ids;
        self
    }

    /// The clock for the expiry of tokens; the system clock by default. No decision depends on it.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Stores values without an expiry. For tests with readings of another time: the server would
    /// delete such values as expired.
    #[must_use]
    pub const fn keeps_for_ever(mut self) -> Self {
        self.reclaims = false;
        self
    }
}

/// Omits the URL, which contains a token.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("connect_timeout", &self.connect_timeout)
            .field("operation_timeout", &self.operation_timeout)
            .field("slack", &self.slack)
            .field("retries", &self.retries)
            .field("max_request_ids", &self.max_request_ids)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parameters_of_the_url() {
        let url = "denokv+https://h?ca=/a%20b&connect_timeout_ms=1&operation_timeout_ms=2\
                   &slack_ms=3&max_request_ids=4";
        let config: Config = url.parse().unwrap();
        let ms = Duration::from_millis;
        let timeouts = (config.connect_timeout, config.operation_timeout, config.slack);
        assert_eq!(timeouts, (ms(1), ms(2), ms(3)));
        assert_eq!(config.address.ca.as_deref(), Some("/a b"));
        assert_eq!(config.max_request_ids, 4);
    }

    #[test]
    fn errors_name_the_parameter() {
        for (query, field) in
            [("ca=", "ca"), ("slack_ms=1s", "slack_ms"), ("max_request_ids", "max_request_ids")]
        {
            let url = format!("denokv+http://secret@h?{query}");
            let error = url.parse::<Config>().map(drop).unwrap_err();
            assert_eq!(error.field(), Some(field), "{query}");
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }
}
