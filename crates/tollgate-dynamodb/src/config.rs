//! The settings of the store.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use aws_sdk_dynamodb::config::Credentials;
use tollgate_core::store::Retries;
use tollgate_core::{Error, Result};

use crate::url::{Address, parse};

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_SLACK: Duration = Duration::from_secs(60);
const DEFAULT_REMEMBERED_KEYS: usize = 20_000;
/// More than for other stores: most lost races return the stored item and are retried at once.
const DEFAULT_MAX_RETRIES: u32 = 20;

/// The settings of a [`DynamoDb`](crate::DynamoDb) store, parsed from a URL and refined by methods.
///
/// The URL is `dynamodb://table?region=…&endpoint=…&profile=…`. All parameters are optional: the
/// region and the credentials are otherwise those of the environment, the profile, or the role of
/// the machine or container, as in every program on AWS.
///
/// Parsing fails with `config_invalid` naming `url` or the part. Settings that methods change are
/// validated by [`DynamoDb::open`](crate::DynamoDb::open).
///
/// ```
/// use std::time::Duration;
/// use tollgate_dynamodb::Config;
///
/// # fn main() -> tollgate_core::Result<()> {
/// let config: Config = "dynamodb://limits?region=eu-central-1".parse()?;
/// let config = config.operation_timeout(Duration::from_millis(500));
/// assert!("dynamodb://limits?region=".parse::<Config>().is_err());
/// # Ok(())
/// # }
/// ```
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

impl FromStr for Config {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self> {
        Ok(Self {
            address: parse(url)?,
            credentials: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            operation_timeout: DEFAULT_OPERATION_TIMEOUT,
            slack: DEFAULT_SLACK,
            retries: Retries::default().max_retries(DEFAULT_MAX_RETRIES),
            remembered_keys: DEFAULT_REMEMBERED_KEYS,
        })
    }
}

impl Config {
    /// An access key, instead of the credentials of the environment. Neither part may be empty.
    #[must_use]
    pub fn credentials(mut self, access_key_id: &str, secret_access_key: &str) -> Self {
        let given = Credentials::new(access_key_id, secret_access_key, None, None, "tollgate");
        self.credentials = Some(given);
        self
    }

    /// How long connecting may take, with the TLS handshake; 200 ms by default.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long one read or one write may take, including its retries; 1 s by default. The deadline
    /// of the limiter is usually shorter.
    #[must_use]
    pub const fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = timeout;
        self
    }

    /// How long an item is kept after it means the same as none, 60 s by default: the largest skew
    /// between the clocks of the processes that decide.
    #[must_use]
    pub const fn slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }

    /// How often an admission that lost a race is retried, 20 times by default, and after which
    /// wait.
    #[must_use]
    pub const fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// How many keys that this process wrote are cached, which saves their reads; 20,000 by
    /// default, 0 for none.
    #[must_use]
    pub const fn remembered_keys(mut self, keys: usize) -> Self {
        self.remembered_keys = keys;
        self
    }

    /// # Errors
    /// `config_invalid` naming the setting and what is accepted.
    pub(crate) fn validate(&self) -> Result<()> {
        let is_empty = |given: &Credentials| {
            given.access_key_id().is_empty() || given.secret_access_key().is_empty()
        };
        if self.credentials.as_ref().is_some_and(is_empty) {
            return Err(Error::config("credentials", "is empty; accepted: an id and a secret"));
        }
        self.retries.validated().map(drop)
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
        let config: Config = "dynamodb://limits".parse().unwrap();
        let config = config.credentials("AKIDs3cret", "s3cret");
        assert!(config.validate().is_ok());
        assert!(!format!("{config:?}").contains("s3cret"));
        let error = config.credentials("", "s3cret").validate().unwrap_err();
        assert_eq!(error.field(), Some("credentials"));
        assert!(!format!("{error:?}").contains("s3cret"));
    }
}
