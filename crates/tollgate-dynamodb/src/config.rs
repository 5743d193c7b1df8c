//! The settings of the store.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use aws_sdk_dynamodb::config::Credentials;
use tollgate_core::store::Retries;
use tollgate_core::store::parameters::{Parameter, ParameterSpec, filled, ms, set_all, whole};
use tollgate_core::{Error, Result};

use crate::url::{Address, endpoint, parse, region};

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_millis(200);
const DEFAULT_OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
const DEFAULT_SLACK: Duration = Duration::from_secs(60);
const DEFAULT_REMEMBERED_KEYS: usize = 20_000;
/// More than for other stores: most lost races return the stored item and are retried at once.
const DEFAULT_MAX_RETRIES: u32 = 20;

const PARAMETERS: &[Parameter<Config>] = &[
    Parameter::new(
        "region",
        "",
        "a name such as eu-central-1",
        "the region; that of the environment or the profile if absent",
        |config, text| region(text).map(|region| config.address.region = Some(region)),
    ),
    Parameter::new(
        "endpoint",
        "",
        "http://host:port, https://host:port",
        "another server than that of the region, such as an emulator",
        |config, text| endpoint(text).map(|endpoint| config.address.endpoint = Some(endpoint)),
    ),
    Parameter::new(
        "profile",
        "",
        "a name",
        "the profile of the credentials file",
        |config, text| filled(text).map(|profile| config.address.profile = Some(profile)),
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
        "how long one read or one write may take, including its retries",
        |config, text| ms(text).map(|timeout| config.operation_timeout = timeout),
    ),
    Parameter::new(
        "slack_ms",
        "60000",
        "milliseconds",
        "how long an item is kept after it means the same as none: the largest skew of clocks",
        |config, text| ms(text).map(|slack| config.slack = slack),
    ),
    Parameter::new(
        "remembered_keys",
        "20000",
        "0 to 10000000",
        "how many keys that this process wrote are cached, which saves their reads",
        |config, text| whole(text, 0..=10_000_000).map(|keys| config.remembered_keys = keys),
    ),
];

/// The settings of a [`DynamoDb`](crate::DynamoDb) store, parsed from a URL and refined by methods.
///
/// The URL is `dynamodb://table`, with [`parameters`](Self::parameters) such as
/// `?region=eu-central-1`. Without them, the region and the credentials are those of the
/// environment, the profile, or the role of the machine or container, as in every program on AWS.
///
/// Parsing fails with `config_invalid` naming `url`, `table` or the parameter. Settings that
/// methods change are validated by [`DynamoDb::open`](crate::DynamoDb::open).
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
        let (table, query) = parse(url)?;
        let mut config = Self {
            address: Address { table, ..Address::default() },
            credentials: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            operation_timeout: DEFAULT_OPERATION_TIMEOUT,
            slack: DEFAULT_SLACK,
            retries: Retries::default().max_retries(DEFAULT_MAX_RETRIES),
            remembered_keys: DEFAULT_REMEMBERED_KEYS,
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
    fn field(url: &str) -> Option<String> {
        let error = url.parse::<Config>().err()?;
        assert!(!error.message().contains("s3cret"), "{error}");
        error.field().map(str::to_owned)
    }

    #[test]
    fn urls_are_parsed() {
        let of = |url: &str| url.parse::<Config>().unwrap().address;
        let plain = of("dynamodb://limits");
        assert_eq!(plain, Address { table: "limits".to_owned(), ..Address::default() });
        let full = "dynamodb://a.b-c_1/?region=eu-central-1&endpoint=http%3A%2F%2Flocalhost:8000\
                    &profile=staging";
        let address = of(full);
        assert_eq!(address.table, "a.b-c_1");
        assert_eq!(address.region.as_deref(), Some("eu-central-1"));
        assert_eq!(address.endpoint.as_deref(), Some("http://localhost:8000"));
        assert_eq!(address.profile.as_deref(), Some("staging"));
        let bare = of("dynamodb://limits?endpoint=https://db.example:1");
        assert_eq!(bare.endpoint.as_deref(), Some("https://db.example:1"));
    }

    #[test]
    fn settings_are_parameters_too() {
        let url = "dynamodb://limits?connect_timeout_ms=1&operation_timeout_ms=2&slack_ms=3\
                   &remembered_keys=4";
        let config: Config = url.parse().unwrap();
        let ms = Duration::from_millis;
        let timeouts = (config.connect_timeout, config.operation_timeout, config.slack);
        assert_eq!(timeouts, (ms(1), ms(2), ms(3)));
        assert_eq!(config.remembered_keys, 4);
    }

    #[test]
    fn errors_name_the_part_and_never_contain_it() {
        for (url, named) in [
            ("dynamo://limits", "url"),
            ("limits", "url"),
            ("dynamodb://limits?secret=s3cret", "url"),
            ("dynamodb://", "table"),
            ("dynamodb://ab", "table"),
            ("dynamodb://user:s3cret@limits", "table"),
            ("dynamodb://a/b", "table"),
            ("dynamodb://limits?region=", "region"),
            ("dynamodb://limits?region", "region"),
            ("dynamodb://limits?region=EU west", "region"),
            ("dynamodb://limits?region=a&region=b", "region"),
            ("dynamodb://limits?endpoint=localhost:8000", "endpoint"),
            ("dynamodb://limits?endpoint=http://", "endpoint"),
            ("dynamodb://limits?endpoint=http://u:s3cret@h", "endpoint"),
            ("dynamodb://limits?endpoint=http%3", "endpoint"),
            ("dynamodb://limits?profile=%ff", "profile"),
            ("dynamodb://limits?slack_ms=s3cret", "slack_ms"),
            ("dynamodb://limits?remembered_keys=-1", "remembered_keys"),
        ] {
            assert_eq!(field(url).as_deref(), Some(named), "{url}");
        }
    }
}
