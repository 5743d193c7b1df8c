//! How the store is set up: where the database is, the token that opens it, how long anything may take.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use tollgate_core::store::Retries;
use tollgate_core::{Clock, Error, Result, SystemClock};

use crate::url::{Address, parse};

/// The variable that Deno's own tools read.
const TOKEN: &str = "DENO_KV_ACCESS_TOKEN";
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_SLACK: Duration = Duration::from_secs(60);
const DEFAULT_MAX_REQUEST_IDS: usize = 1_000_000;

/// The settings of a [`DenoKv`](crate::DenoKv) store.
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

impl Config {
    /// The settings for a database: `denokv+https://host/path` or `denokv+http://host:port`. The access
    /// token may stand before the host (`denokv+https://token@host`), percent-encoded; `?ca=FILE` names
    /// certificates to trust instead of those of the operating system.
    ///
    /// # Errors
    /// `config_invalid` naming `url`. The message never repeats the address.
    pub fn new(address: &str) -> Result<Self> {
        Ok(Self {
            address: parse(address)?,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            operation_timeout: DEFAULT_OPERATION_TIMEOUT,
            slack: DEFAULT_SLACK,
            retries: Retries::default(),
            max_request_ids: DEFAULT_MAX_REQUEST_IDS,
            reclaims: true,
            clock: Arc::new(SystemClock::new()),
        })
    }

    /// The access token of the database.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.address.token = Some(token.to_owned());
        self
    }

    /// Takes the token from the variable `DENO_KV_ACCESS_TOKEN`, unless there is one already.
    ///
    /// # Errors
    /// `config_invalid` naming `token` when there is none anywhere.
    pub fn token_from_env(mut self) -> Result<Self> {
        if self.address.token.is_none() {
            let found = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
            let missing = || {
                let message = format!("is missing; accepted: in the address, or in {TOKEN}");
                Error::config("token", message)
            };
            self.address.token = Some(found.ok_or_else(missing)?);
        }
        Ok(self)
    }

    /// How long connecting may take, TLS included; 200 ms by default.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long one request may take before its connection is given up, 1 s by default.
    #[must_use]
    pub const fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    /// How long a value outlives its meaning, 60 s by default: the largest skew between the clocks of the
    /// nodes and the server, and the largest step back, that is covered. It must exceed the time that a
    /// write may be under way.
    #[must_use]
    pub const fn slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }

    /// What an admission that lost a race does; the usual by default.
    #[must_use]
    pub const fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// How many request ids this process may have written that have not expired, 1,000,000 by default; more
    /// get `queue_full`. The database cannot be asked how many there are, so that several processes may
    /// remember as many each.
    #[must_use]
    pub const fn max_request_ids(mut self, ids: usize) -> Self {
        self.max_request_ids = ids;
        self
    }

    /// The clock that tells when a token ends; the system's by default. It decides nothing else.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Never lets the server delete anything. For readings of other times than the server's own, as
    /// tests use them: the server would take such values to have expired long ago.
    #[must_use]
    pub const fn keeps_for_ever(mut self) -> Self {
        self.reclaims = false;
        self
    }
}

/// Without the address, which holds a token.
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
