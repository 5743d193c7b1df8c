//! Server configuration: listeners, store, policies, behaviour in an outage. Flags override the
//! environment, which overrides the file; all errors are reported at once.

mod access;
mod catalog;
mod reload;
mod schema;
mod settings;
mod store_section;
mod telemetry;
mod token_list;
mod values;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate::limiter::{BreakerConfig, Share};
use tollgate::store::Retries;
use tollgate::{Error, OutageMode, Quota};
use tollgate_service::config::values::{boolean, outage_mode, per_second, whole};
use tollgate_service::config::yaml::Node;
use tollgate_service::config::{DEFAULT_CAPACITY, PolicyDefaults, Section, request_ids, yaml};
use tollgate_service::policy::AdHocBounds;
use tollgate_service::receipt::{ReceiptKey, validate_secret};
use tollgate_service::{Auth, Policies};

use self::access::{auth_of, guard_public, tls_of};
use self::settings::Settings;
use self::values::{address, count, hosts, share};
use crate::store;

pub use catalog::{Setting, reloads_table, settings_table};
pub use reload::SettingChange;
pub use schema::schema;
pub use settings::{Source, hide_password};
pub use telemetry::{Log, LogFormat, Traces};
pub use tollgate_service::config::values::duration;
pub use tollgate_service::config::{ConfigError, ConfigErrors};

/// The longest file that is read, in bytes.
const FILE_MAX_BYTES: usize = 4 * 1024 * 1024;

/// The configuration of a server, complete and valid.
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// Where HTTP listens, if it does.
    pub http: Option<SocketAddr>,
    /// Where gRPC listens, if it does.
    pub grpc: Option<SocketAddr>,
    /// Where RESP listens, if it does.
    pub resp: Option<SocketAddr>,
    /// The address of the store, which may hold a password.
    pub store: String,
    /// Retries of the stores; without a value each store has its own default.
    pub retries: Option<Retries>,
    /// The policies.
    pub policies: Policies,
    /// What happens when the store cannot answer.
    pub failure: Failure,
    /// The tokens.
    pub auth: Auth,
    /// The key of receipts; without it, this process makes one for itself.
    pub receipt_key: Option<ReceiptKey>,
    /// Further names by which clients reach a loopback HTTP listener without tokens.
    pub hosts: Vec<String>,
    /// How listeners encrypt, if they do.
    pub tls: Option<Tls>,
    /// How many connections each listener serves at once.
    pub connections: usize,
    /// How long clients may take.
    pub time_limits: TimeLimits,
    /// How long requests under way may take at shutdown.
    pub drain: Duration,
    /// The log.
    pub log: Log,
    /// The collector of traces, if there is one.
    pub traces: Option<Traces>,
    settings: Settings,
    /// The name of the file, for errors.
    file: Option<String>,
}

/// Deadline, breaker and bounds of calls to the store.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// How long the store may take to answer.
    pub deadline: Duration,
    /// When calls to a store that does not answer are rejected.
    pub breaker: BreakerConfig,
    /// How many calls may wait for the store at once.
    pub max_in_flight: usize,
    /// The share of a quota that this process grants alone.
    pub local_share: Share,
}

/// How long a client may take, on every listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// From connecting to a valid request, with a valid token where one is needed.
    pub first_request: Duration,
    /// From the first byte of a request to its last.
    pub request: Duration,
    /// Until it has taken a reply.
    pub reply: Duration,
    /// Without a request.
    pub idle: Duration,
}

/// The files of TLS, for every listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate with its chain, as PEM.
    pub cert: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
    /// The authority of client certificates; without it, clients need none.
    pub client_ca: Option<PathBuf>,
}

/// Where a configuration comes from.
#[derive(Debug, Default)]
pub struct Sources<'a> {
    /// Settings by flags.
    pub flags: &'a [(Setting, String)],
    /// The file, if there is one.
    pub file: Option<&'a Path>,
}

impl Config {
    /// The configuration without flags, environment and file: memory, one policy, loopback only.
    ///
    /// # Errors
    /// Never: the built-in configuration is valid.
    pub fn built_in() -> Result<Self, ConfigErrors> {
        Self::of_text(&[], |_| None, None)
    }

    /// Reads a configuration from flags, the environment and a file.
    ///
    /// # Errors
    /// All errors of the configuration.
    pub fn read(sources: &Sources<'_>) -> Result<Self, ConfigErrors> {
        let Some(path) = sources.file else {
            return Self::of_text(sources.flags, of_process, None);
        };
        let bytes = std::fs::read(path)
            .map_err(|error| unread(path, format!("cannot be read: {error}")))?;
        Self::of_bytes(sources.flags, path, bytes)
    }

    /// Reads a configuration from flags, the environment, and the bytes of a file.
    ///
    /// # Errors
    /// All errors of the configuration.
    pub fn of_bytes(
        flags: &[(Setting, String)],
        file: &Path,
        bytes: Vec<u8>,
    ) -> Result<Self, ConfigErrors> {
        let text = text_of(bytes).map_err(|message| unread(file, message))?;
        Self::of_text(flags, of_process, Some((&file.display().to_string(), &text)))
    }

    /// Reads a configuration from flags, any environment, and the name and the text of a file.
    ///
    /// # Errors
    /// All errors of the configuration.
    pub fn of_text(
        flags: &[(Setting, String)],
        variable: impl Fn(&str) -> Option<String>,
        file: Option<(&str, &str)>,
    ) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let config = build(flags, &variable, file.map(|(_, text)| text), &mut errors);
        match config {
            Some(mut config) if errors.is_empty() => {
                config.file = file.map(|(name, _)| name.to_owned());
                Ok(config)
            }
            _ => {
                let text = file.map_or("", |(_, text)| text);
                let name = file.map(|(name, _)| name);
                Err(ConfigErrors::of_file((name, text), errors, settings::is_public))
            }
        }
    }

    /// The name of its file, if it has one.
    pub(crate) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Variables of the environment that look like settings and are none, each with what was
    /// probably meant.
    pub fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<String> {
        names.filter_map(|name| settings::unknown_variable(&name)).collect()
    }

    /// Whether only callers reach the HTTP listener: it is on a loopback address, or they need a
    /// token or a certificate. Else the page and what it reads are off.
    #[must_use]
    pub fn reaches_callers_only(&self) -> bool {
        let has_certificates = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        let is_loopback = self.http.is_none_or(|address| address.ip().is_loopback());
        is_loopback || has_certificates || self.auth.guards_callers()
    }

    /// Name, value and source of every setting, secrets hidden.
    #[must_use]
    pub fn show(&self) -> Vec<(&'static str, String, Source)> {
        self.settings.show()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("settings", &self.show())
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}

/// A variable of this process.
fn of_process(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The error of a file that cannot be read.
fn unread(file: &Path, message: String) -> ConfigErrors {
    ConfigErrors { file: None, list: vec![ConfigError::new(file.display().to_string(), message)] }
}

fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() > FILE_MAX_BYTES {
        return Err(format!("has {} bytes; accepted: up to {FILE_MAX_BYTES}", bytes.len()));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

fn build(
    flags: &[(Setting, String)],
    variable: &impl Fn(&str) -> Option<String>,
    file: Option<&str>,
    errors: &mut Vec<ConfigError>,
) -> Option<Config> {
    let mut settings = Settings::of_flags(flags);
    settings.add_environment(variable, errors);
    // Without a file that can be read, flags and environment are read for their errors.
    let nothing = Node::nothing();
    let root = yaml::parse(file.unwrap_or_default(), errors);
    let policies =
        Section::of(root.as_ref().unwrap_or(&nothing), "", errors).and_then(|mut top| {
            settings.add_file(&mut top, errors);
            let policies = policies_of(&settings, &mut top, errors);
            top.finish(errors);
            policies
        });
    assemble(settings, policies, errors)
}

/// The policies of the file, and `default` from the settings if the file has none of that name. In
/// the place of a setting that is wrong its default counts, so that the policies are read.
fn policies_of(
    settings: &Settings,
    section: &mut Section<'_>,
    errors: &mut Vec<ConfigError>,
) -> Option<Policies> {
    let on_outage = settings.parsed(Setting::OnOutage, outage_mode, errors);
    let capacity = settings.parsed(Setting::DefaultCapacity, whole, errors);
    let refill = settings.parsed(Setting::DefaultRefillRate, per_second, errors);
    let enabled = settings.parsed(Setting::ClThrottle, boolean, errors);
    let max_period = settings.parsed(Setting::ClThrottleMaxPeriod, duration, errors);
    let max_keys = settings.parsed(Setting::ClThrottleMaxKeys, count, errors);
    let otherwise = AdHocBounds::default();
    let defaults = PolicyDefaults {
        capacity: capacity.unwrap_or(DEFAULT_CAPACITY),
        refill: refill.unwrap_or_else(|| Quota::per_second(1)),
        on_outage: on_outage.unwrap_or(OutageMode::Open),
        hash_secret: settings.text(Setting::HashSecret),
        ad_hoc: AdHocBounds {
            enabled: enabled.unwrap_or(otherwise.enabled),
            max_period: max_period.unwrap_or(otherwise.max_period),
            max_keys: max_keys.unwrap_or(otherwise.max_keys),
        },
        request_ids: request_ids(section, errors),
    };
    let written = defaults.read(section, errors);
    let report = |error: ConfigError| errors.push(settings.error_of(&error.field, &error.message));
    defaults.build(written).map_err(report).ok()
}

fn assemble(
    settings: Settings,
    policies: Option<Policies>,
    errors: &mut Vec<ConfigError>,
) -> Option<Config> {
    let http = settings.parsed(Setting::Http, address, errors);
    let grpc = settings.parsed(Setting::Grpc, address, errors);
    let resp = settings.parsed(Setting::Resp, address, errors);
    let deadline = settings.parsed(Setting::Deadline, duration, errors);
    let failures = settings.parsed(Setting::BreakerFailures, whole, errors);
    let open_for = settings.parsed(Setting::BreakerOpenFor, duration, errors);
    let max_in_flight = settings.parsed(Setting::MaxInFlight, count, errors);
    let local_share = settings.parsed(Setting::LocalShare, share, errors);
    let retries = retries_of(&settings, errors);
    let connections = settings.parsed(Setting::Connections, count, errors);
    let hosts = settings.parsed(Setting::Hosts, hosts, errors);
    let time_limits = time_limits(&settings, errors);
    let drain = settings.parsed(Setting::Drain, duration, errors);
    let (log, traces) = (telemetry::log(&settings, errors), telemetry::traces(&settings, errors));
    if let Err(error) = store::validate(settings.text(Setting::Store)) {
        errors.push(settings.error(Setting::Store, of_part(&error)));
    }
    let fit = policies.as_ref().map(|all| store::check_bounds(settings.text(Setting::Store), all));
    let unfit = fit.and_then(Result::err);
    errors.extend(unfit.map(|e| ConfigError::new(e.field().unwrap_or_default(), e.message())));
    let receipt_secret = settings.text(Setting::ReceiptSecret);
    if let Err(error) = validate_secret(receipt_secret) {
        errors.push(settings.error(Setting::ReceiptSecret, error.message()));
    }
    let receipt_key = ReceiptKey::of_secrets(receipt_secret, settings.text(Setting::HashSecret));
    let auth = auth_of(&settings, policies.as_ref(), errors);
    let (mut auth, tls) = (auth?, tls_of(&settings, errors));
    if tls.as_ref().is_some_and(|tls| tls.client_ca.is_some()) {
        // A certificate says who a client is, and not that it is an administrator.
        auth = auth.only_callers();
    }
    guard_public(&settings, &auth, [http, grpc, resp].map(Option::flatten), errors);
    let breaker = BreakerConfig::default()
        .failures(u32::try_from(failures?).unwrap_or(u32::MAX))
        .open_for(open_for?);
    let (deadline, max_in_flight, local_share) = (deadline?, max_in_flight?, local_share?);
    Some(Config {
        http: http?,
        grpc: grpc?,
        resp: resp?,
        store: settings.text(Setting::Store).to_owned(),
        retries,
        policies: policies?,
        failure: Failure { deadline, breaker, max_in_flight, local_share },
        auth,
        receipt_key,
        hosts: hosts?,
        tls,
        connections: connections?.clamp(1, 1_000_000),
        time_limits: time_limits?,
        drain: drain?,
        log: log?,
        traces,
        settings,
        file: None,
    })
}

/// An error of an address, which names the part that is wrong.
fn of_part(error: &Error) -> String {
    match error.field() {
        None | Some("store" | "url") => error.message().to_owned(),
        Some(part) => format!("`{part}` {}", error.message()),
    }
}

fn time_limits(settings: &Settings, errors: &mut Vec<ConfigError>) -> Option<TimeLimits> {
    let mut of = |setting| settings.parsed(setting, duration, errors);
    let first_request = of(Setting::FirstRequestTimeout);
    let (request, reply) = (of(Setting::RequestTimeout), of(Setting::ReplyTimeout));
    let idle = of(Setting::IdleTimeout);
    Some(TimeLimits {
        first_request: first_request?,
        request: request?,
        reply: reply?,
        idle: idle?,
    })
}

/// Nothing, unless one of the three is set; then the others are what the earlier service had.
fn retries_of(settings: &Settings, errors: &mut Vec<ConfigError>) -> Option<Retries> {
    let three = [Setting::MaxRetries, Setting::BaseBackoff, Setting::MaxBackoff];
    if three.into_iter().all(|setting| settings.text(setting).is_empty()) {
        return None;
    }
    let or =
        |text: &str, otherwise: &str| if text.is_empty() { otherwise } else { text }.to_owned();
    let max = settings.parsed(Setting::MaxRetries, |text| whole(&or(text, "3")), errors);
    let base = settings.parsed(Setting::BaseBackoff, |text| duration(&or(text, "50ms")), errors);
    let longest = settings.parsed(Setting::MaxBackoff, |text| duration(&or(text, "500ms")), errors);
    let retries = Retries::default()
        .max_retries(u32::try_from(max?).unwrap_or(u32::MAX))
        .base_backoff(base?)
        .max_backoff(longest?);
    let refused = |error: &Error| {
        let name = error.field().unwrap_or(Setting::MaxRetries.name());
        errors.push(settings.error_of(name, error.message()));
    };
    retries.validated().inspect_err(refused).ok()
}
