//! How the store is set up: which table, whose credentials, how patient.

use core::fmt;
use core::time::Duration;

use aws_sdk_dynamodb::config::Credentials;
use tollgate_core::store::Retries;
use tollgate_core::{Error, Result};

use crate::url::{Address, parse};

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_SLACK: Duration = Duration::from_secs(60);
/// More than elsewhere: most losses bring along what is there, and are run again at once.
const DEFAULT_REMEMBERED_KEYS: usize = 20_000;

/// The settings of a [`DynamoDb`](crate::DynamoDb) store.
#[derive(Clone)]
pub struct Config {
    pub(crate) address: Address,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) connect_timeout: Duration,
    pub(crate) operation_timeout: Duration,
    pub(crate) slack: Duration,
    pub(crate) retries: Retries,
    pub(crate) remembered_keys: usize,
}

impl Config {
    /// The settings for a table: `dynamodb://table?region=…&endpoint=…&profile=…`.
    ///
    /// All parts but the table are optional: what is not there comes from where every program on AWS
    /// looks for it (the environment, the profile, the machine's or container's role).
    ///
    /// # Errors
    /// `config_invalid` naming `url` or the part at fault.
    pub fn new(url: &str) -> Result<Self> {
        Ok(Self {
            address: parse(url)?,
            credentials: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            operation_timeout: DEFAULT_OPERATION_TIMEOUT,
            slack: DEFAULT_SLACK,
            retries: Retries::default().max_retries(20),
            remembered_keys: DEFAULT_REMEMBERED_KEYS,
        })
    }

    /// An access key instead of what the environment offers.
    ///
    /// # Errors
    /// `config_invalid` naming `credentials` when one of them is empty.
    pub fn credentials(mut self, access_key_id: &str, secret_access_key: &str) -> Result<Self> {
        if access_key_id.is_empty() || secret_access_key.is_empty() {
            return Err(Error::config("credentials", "is empty; accepted: an id and a secret"));
        }
        let given = Credentials::new(access_key_id, secret_access_key, None, None, "tollgate");
        self.credentials = Some(given);
        Ok(self)
    }

    /// How long connecting may take, TLS included; 200 ms by default.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long one read or one write may take, its repetitions included; 1 s by default. The
    /// deadline of the limiter is usually shorter.
    #[must_use]
    pub const fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    /// How long an item outlives its meaning, 60 s by default: the largest difference between the
    /// clocks of the machines that decide.
    #[must_use]
    pub const fn slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }

    /// What an admission that lost a race does: 20 repetitions by default, with the usual waits.
    #[must_use]
    pub const fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// For how many keys this process remembers what it wrote, which saves their reads; 20,000 by
    /// default, 0 for none.
    #[must_use]
    pub const fn remembered_keys(mut self, keys: usize) -> Self {
        self.remembered_keys = keys;
        self
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("address", &self.address)
            .field("has_credentials", &self.credentials.is_some())
            .field("connect_timeout", &self.connect_timeout)
            .field("operation_timeout", &self.operation_timeout)
            .field("slack", &self.slack)
            .field("retries", &self.retries)
            .field("remembered_keys", &self.remembered_keys)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_never_shown() {
        let config = Config::new("dynamodb://limits").unwrap();
        let config = config.credentials("AKIDs3cret", "s3cret").unwrap();
        assert!(!format!("{config:?}").contains("s3cret"));
        let error = config.credentials("", "s3cret").unwrap_err();
        assert_eq!(error.field(), Some("credentials"));
        assert!(!format!("{error:?}").contains("s3cret"));
    }
}
