//! Every setting: its name, its default, the accepted values, and its meaning. Reading, showing,
//! the JSON Schema and the table in the documentation start here.

/// The accepted values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An address and a port, or `off`.
    Address,
    Duration,
    /// The URL of a collector.
    Endpoint,
    /// A file.
    File,
    /// A share that may be 0.
    Fraction,
    /// Names of hosts, separated by commas.
    Hosts,
    /// One of several words.
    OneOf(&'static [&'static str]),
    /// A decimal number of units per second.
    PerSecond,
    /// A text that is never printed.
    Secret,
    Share,
    /// Tokens, which are never printed.
    Tokens,
    /// The URL of a store, whose password is never printed.
    Store,
    Boolean,
    Whole,
}

impl Kind {
    /// The accepted values, for documentation.
    pub(super) fn accepted(self) -> String {
        let text = match self {
            Self::Address => "address:port, or `off`",
            Self::Duration => "a duration such as `100ms`, `1m`",
            Self::Endpoint => "`http://…` or `https://…`",
            Self::File => "a PEM file",
            Self::Fraction => "`0`, `1` or a fraction such as `1/100`",
            Self::Hosts => "names or addresses, separated by commas",
            Self::OneOf(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                return words.join(", ");
            }
            Self::PerSecond => "a decimal number",
            Self::Secret => "text",
            Self::Share => "`1` or a fraction such as `1/3`",
            Self::Store => "a URL, or a section: [stores](#stores)",
            Self::Tokens => "text, or a list: [tokens](#tokens)",
            Self::Boolean => "`true`, `false`",
            Self::Whole => "a whole number",
        };
        text.to_owned()
    }
}

/// Outage modes.
pub(super) const OUTAGES: &[&str] = &["open", "closed", "local"];
/// What a policy does when its table in memory is full.
pub(super) const WHEN_FULL: &[&str] = &["protect", "admit"];
/// What a policy does when it remembers as many request ids as it may.
pub(super) const WHEN_IDS_FULL: &[&str] = &["forget_oldest", "refuse"];
const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

macro_rules! settings {
    ($($setting:ident, $name:literal, $built_in:literal, $kind:expr, $meaning:literal;)*) => {
        /// A setting. Its value is read by this name alone, so that a name without a row does not
        /// compile.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Setting {
            $(#[doc = concat!("`", $name, "`: ", $meaning, ".")] $setting,)*
        }

        impl Setting {
            /// All of them, by topic.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$setting),*];

            /// Its name in files; in capitals after `TOLLGATE_` in the environment.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$setting => $name,)* }
            }

            /// Its default; empty for none.
            #[must_use]
            pub const fn built_in(self) -> &'static str {
                match self { $(Self::$setting => $built_in,)* }
            }

            pub(super) const fn kind(self) -> Kind {
                match self { $(Self::$setting => $kind,)* }
            }

            /// What it is for, in a sentence without an end.
            pub(super) const fn meaning(self) -> &'static str {
                match self { $(Self::$setting => $meaning,)* }
            }
        }
    };
}

settings! {
    Store, "store", "memory:", Kind::Store, "the store of the counters";
    Http, "http", "127.0.0.1:8080", Kind::Address, "the HTTP listener";
    Grpc, "grpc", "127.0.0.1:50051", Kind::Address, "the gRPC listener";
    Resp, "resp", "127.0.0.1:6380", Kind::Address, "the RESP listener";
    Tokens, "tokens", "", Kind::Tokens,
        "tokens of callers, of 16 bytes and more; each may be for some policies";
    AdminTokens, "admin_tokens", "", Kind::Tokens,
        "tokens that may also reset keys and refund without a receipt";
    InsecurePublic, "insecure_public", "false", Kind::Boolean,
        "allows public addresses without tokens";
    Hosts, "hosts", "", Kind::Hosts,
        "further names by which clients reach a loopback HTTP listener without tokens";
    TlsCert, "tls_cert", "", Kind::File, "a certificate with its chain: all listeners use TLS";
    TlsKey, "tls_key", "", Kind::File, "the private key of the certificate";
    TlsClientCa, "tls_client_ca", "", Kind::File,
        "only clients with a certificate of this authority connect";
    OnOutage, "on_outage", "open", Kind::OneOf(OUTAGES),
        "the outage mode of policies that set none";
    Deadline, "deadline", "100ms", Kind::Duration, "how long the store may take";
    BreakerFailures, "breaker_failures", "5", Kind::Whole,
        "the breaker of a server opens after this many outage events in a row";
    BreakerOpenFor, "breaker_open_for", "100ms", Kind::Duration,
        "how long an open breaker rejects calls before one tries again, about";
    MaxInFlight, "max_in_flight", "10000", Kind::Whole,
        "the most calls that may wait for the store";
    LocalShare, "local_share", "1", Kind::Share,
        "the share of a quota that this process grants alone";
    MaxRetries, "max_retries", "", Kind::Whole,
        "retries after a conflict; the default of the store if absent";
    BaseBackoff, "base_backoff", "", Kind::Duration, "the wait before the first of these retries";
    MaxBackoff, "max_backoff", "", Kind::Duration, "the longest wait before one of these retries";
    Connections, "connections", "10000", Kind::Whole, "the most connections of each listener";
    FirstRequestTimeout, "first_request_timeout", "10s", Kind::Duration,
        "how long after it connected a client may take to make a valid request";
    RequestTimeout, "request_timeout", "10s", Kind::Duration,
        "how long a request may take to arrive";
    ReplyTimeout, "reply_timeout", "10s", Kind::Duration,
        "how long a client may take to read a reply";
    IdleTimeout, "idle_timeout", "75s", Kind::Duration,
        "how long a connection without requests is kept";
    Drain, "drain", "30s", Kind::Duration, "how long requests may take to complete at shutdown";
    DefaultCapacity, "default_capacity", "10", Kind::Whole,
        "the capacity of the policy `default`, if the file has none";
    DefaultRefillRate, "default_refill_rate", "1", Kind::PerSecond,
        "units per second that this bucket regains";
    ClThrottle, "cl_throttle", "true", Kind::Boolean, "whether `CL.THROTTLE` is answered";
    ClThrottleMaxPeriod, "cl_throttle_max_period", "30d", Kind::Duration,
        "the longest period of `CL.THROTTLE`";
    ClThrottleMaxKeys, "cl_throttle_max_keys", "100000", Kind::Whole,
        "the most keys of `CL.THROTTLE` in the memory store";
    HashSecret, "hash_secret", "", Kind::Secret, "the secret of key hashes";
    ReceiptSecret, "receipt_secret", "", Kind::Secret,
        "the secret of receipts, of 16 bytes and more; `hash_secret` if absent";
    LogLevel, "log_level", "info", Kind::OneOf(LEVELS), "the log level";
    LogFormat, "log_format", "text", Kind::OneOf(&["text", "json"]), "the log format";
    LogKeys, "log_keys", "hashed", Kind::OneOf(&["hashed", "plain"]), "keys in logs";
    OtlpEndpoint, "otlp_endpoint", "", Kind::Endpoint, "the collector of traces, by OTLP over gRPC";
    TraceSample, "trace_sample", "1", Kind::Fraction, "the share of requests that are traced";
}

impl Setting {
    /// The setting of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }
}

impl Setting {
    /// Whether a reload applies a change. Others need a restart.
    #[must_use]
    pub const fn reloads(self) -> bool {
        use Setting::{
            AdminTokens, ClThrottle, ClThrottleMaxPeriod, DefaultCapacity, DefaultRefillRate,
            HashSecret, InsecurePublic, LogKeys, LogLevel, OnOutage, ReceiptSecret, TlsCert,
            TlsClientCa, TlsKey, Tokens,
        };
        matches!(
            self,
            Tokens
                | AdminTokens
                | InsecurePublic
                | TlsCert
                | TlsKey
                | TlsClientCa
                | OnOutage
                | DefaultCapacity
                | DefaultRefillRate
                | ClThrottle
                | ClThrottleMaxPeriod
                | HashSecret
                | ReceiptSecret
                | LogLevel
                | LogKeys
        )
    }
}

/// The settings that a reload applies, and those that need a restart, in Markdown.
#[must_use]
pub fn reloads_table() -> String {
    let names = |reloads: bool| {
        let named = Setting::ALL.into_iter().filter(|setting| setting.reloads() == reloads);
        named.map(|setting| format!("`{}`", setting.name())).collect::<Vec<_>>().join(", ")
    };
    let (applied, restart) = (names(true), names(false));
    format!(
        "| a change of | takes |\n|---|---|\n| {applied} | a reload |\n| {restart} | a restart |\n"
    )
}

/// The table of settings for the documentation, in Markdown.
#[must_use]
pub fn settings_table() -> String {
    let mut table = String::from("| setting | default | accepted | meaning |\n|---|---|---|---|\n");
    for setting in Setting::ALL {
        let default = match setting.built_in() {
            "" => String::new(),
            default => format!("`{default}`"),
        };
        let (name, accepted) = (setting.name(), setting.kind().accepted());
        let meaning = setting.meaning();
        table.push_str(&format!("| `{name}` | {default} | {accepted} | {meaning} |\n"));
    }
    table
}
