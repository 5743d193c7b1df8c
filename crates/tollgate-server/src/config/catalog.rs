//! Every setting there is: its name, its value when nobody sets it, what it may be, and what it is
//! for. Reading, showing and the schema for editors all start here.

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    /// Its name in files; in capitals after `TOLLGATE_` in the environment.
    pub(super) name: &'static str,
    /// Its value when nobody sets it; empty for none.
    pub(super) built_in: &'static str,
    pub(super) kind: Kind,
    /// What it is for, in a sentence without an end.
    pub(super) meaning: &'static str,
}

/// What a setting may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An address and a port, or `off`.
    Address,
    Duration,
    /// The address of a collector.
    Endpoint,
    /// A share that may be nothing.
    Fraction,
    /// One of some words.
    OneOf(&'static [&'static str]),
    /// A decimal number of units per second.
    PerSecond,
    /// A text that is never shown.
    Secret,
    Share,
    /// The address of a store, whose password is never shown.
    Store,
    Text,
    Truth,
    Whole,
}

/// What happens when the store cannot answer.
pub(super) const OUTAGES: &[&str] = &["open", "closed", "local"];
/// How much is logged.
const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

const fn set(
    name: &'static str,
    built_in: &'static str,
    kind: Kind,
    meaning: &'static str,
) -> Setting {
    Setting { name, built_in, kind, meaning }
}

/// All of them, by name.
pub(super) const SETTINGS: [Setting; 29] = [
    set("admin_tokens", "", Kind::Secret, "tokens that may also reset keys, separated by commas"),
    set("base_backoff", "", Kind::Duration, "how long PostgreSQL waits before its first retry"),
    set("breaker_failures", "5", Kind::Whole, "after so many outages in a row the store is spared"),
    set("breaker_open_for", "1s", Kind::Duration, "for how long the store is not asked then"),
    set("connections", "10000", Kind::Whole, "how many connections each listener serves at once"),
    set("deadline", "100ms", Kind::Duration, "how long the store may take"),
    set("default_capacity", "10", Kind::Whole, "the bucket of the policy default, if none is here"),
    set("default_refill_rate", "1", Kind::PerSecond, "units per second that this bucket regains"),
    set("drain", "30s", Kind::Duration, "how long requests may take to end when the server does"),
    set("grpc", "127.0.0.1:50051", Kind::Address, "where gRPC listens"),
    set("hash_secret", "", Kind::Secret, "what hashes of keys are made with"),
    set("http", "127.0.0.1:8080", Kind::Address, "where HTTP listens"),
    set("insecure_public", "false", Kind::Truth, "listen where others are, though anybody may ask"),
    set("local_share", "1", Kind::Share, "the share of a quota that this process grants alone"),
    set("log_format", "text", Kind::OneOf(&["text", "json"]), "how is logged"),
    set("log_keys", "hashed", Kind::OneOf(&["hashed", "plain"]), "how keys appear in logs"),
    set("log_level", "info", Kind::OneOf(LEVELS), "how much is logged"),
    set("max_backoff", "", Kind::Duration, "how long PostgreSQL waits at most before a retry"),
    set("max_in_flight", "10000", Kind::Whole, "how many calls may wait for the store"),
    set("max_retries", "", Kind::Whole, "how often PostgreSQL retries after a conflict"),
    set("on_outage", "open", Kind::OneOf(OUTAGES), "what policies do without the store"),
    set("otlp_endpoint", "", Kind::Endpoint, "the collector of traces, by OTLP over gRPC"),
    set("resp", "127.0.0.1:6380", Kind::Address, "where RESP listens"),
    set("store", "memory:", Kind::Store, "where counts are kept"),
    set("tls_cert", "", Kind::Text, "PEM file of a certificate: all listeners speak TLS"),
    set("tls_client_ca", "", Kind::Text, "PEM file: only clients of this authority are let in"),
    set("tls_key", "", Kind::Text, "PEM file of the key of the certificate"),
    set("tokens", "", Kind::Secret, "tokens of callers, of 16 bytes and more, separated by commas"),
    set("trace_sample", "1", Kind::Fraction, "the share of requests that are traced"),
];
