//! Every setting: its name, its default, the accepted values, and its meaning. Reading, showing,
//! the JSON Schema and the table in the documentation start here.

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// Its name in files; in capitals after `TOLLGATE_` in the environment.
    pub(super) name: &'static str,
    /// Its default; empty for none.
    pub(super) built_in: &'static str,
    pub(super) kind: Kind,
    /// What it is for, in a sentence without an end.
    pub(super) meaning: &'static str,
}

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
    /// One of several words.
    OneOf(&'static [&'static str]),
    /// A decimal number of units per second.
    PerSecond,
    /// A text that is never printed.
    Secret,
    Share,
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
            Self::OneOf(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                return words.join(", ");
            }
            Self::PerSecond => "a decimal number",
            Self::Secret => "text",
            Self::Share => "`1` or a fraction such as `1/3`",
            Self::Store => "a URL: [stores](stores.md)",
            Self::Boolean => "`true`, `false`",
            Self::Whole => "a whole number",
        };
        text.to_owned()
    }
}

/// Outage modes.
pub(super) const OUTAGES: &[&str] = &["open", "closed", "local"];
const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

const fn set(
    name: &'static str,
    built_in: &'static str,
    kind: Kind,
    meaning: &'static str,
) -> Setting {
    Setting { name, built_in, kind, meaning }
}

/// All settings, by topic.
pub(super) const SETTINGS: [Setting; 29] = [
    set("store", "memory:", Kind::Store, "the store of the counters"),
    set("http", "127.0.0.1:8080", Kind::Address, "the HTTP listener"),
    set("grpc", "127.0.0.1:50051", Kind::Address, "the gRPC listener"),
    set("resp", "127.0.0.1:6380", Kind::Address, "the RESP listener"),
    set("tokens", "", Kind::Secret, "tokens of callers, of 16 bytes and more, separated by commas"),
    set("admin_tokens", "", Kind::Secret, "tokens that may also reset keys, separated by commas"),
    set("insecure_public", "false", Kind::Boolean, "allows public addresses without tokens"),
    set("tls_cert", "", Kind::File, "a certificate with its chain: all listeners use TLS"),
    set("tls_key", "", Kind::File, "the private key of the certificate"),
    set(
        "tls_client_ca",
        "",
        Kind::File,
        "only clients with a certificate of this authority connect",
    ),
    set("on_outage", "open", Kind::OneOf(OUTAGES), "the outage mode of policies that set none"),
    set("deadline", "100ms", Kind::Duration, "how long the store may take"),
    set("breaker_failures", "5", Kind::Whole, "the breaker opens after this many outages in a row"),
    set("breaker_open_for", "1s", Kind::Duration, "how long an open breaker rejects calls"),
    set("max_in_flight", "10000", Kind::Whole, "the most calls that may wait for the store"),
    set("local_share", "1", Kind::Share, "the share of a quota that this process grants alone"),
    set(
        "max_retries",
        "",
        Kind::Whole,
        "retries after a conflict; the default of the store if absent",
    ),
    set("base_backoff", "", Kind::Duration, "the wait before the first of these retries"),
    set("max_backoff", "", Kind::Duration, "the longest wait before one of these retries"),
    set("connections", "10000", Kind::Whole, "the most connections of each listener"),
    set("drain", "30s", Kind::Duration, "how long requests may take to complete at shutdown"),
    set(
        "default_capacity",
        "10",
        Kind::Whole,
        "the capacity of the policy `default`, if the file has none",
    ),
    set("default_refill_rate", "1", Kind::PerSecond, "units per second that this bucket regains"),
    set("hash_secret", "", Kind::Secret, "the secret of key hashes"),
    set("log_level", "info", Kind::OneOf(LEVELS), "the log level"),
    set("log_format", "text", Kind::OneOf(&["text", "json"]), "the log format"),
    set("log_keys", "hashed", Kind::OneOf(&["hashed", "plain"]), "keys in logs"),
    set("otlp_endpoint", "", Kind::Endpoint, "the collector of traces, by OTLP over gRPC"),
    set("trace_sample", "1", Kind::Fraction, "the share of requests that are traced"),
];

/// The table of settings for the documentation, in Markdown.
#[must_use]
pub fn settings_table() -> String {
    let mut table = String::from("| setting | default | accepted | meaning |\n|---|---|---|---|\n");
    for Setting { name, built_in, kind, meaning } in SETTINGS {
        let default = if built_in.is_empty() { String::new() } else { format!("`{built_in}`") };
        let accepted = kind.accepted();
        table.push_str(&format!("| `{name}` | {default} | {accepted} | {meaning} |\n"));
    }
    table
}
