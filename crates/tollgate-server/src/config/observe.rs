//! What a server tells whoever watches it: logs and traces.

use tracing::level_filters::LevelFilter;

use super::complaint::Complaint;
use super::settings::Settings;
use super::values::{shown, whole};
use crate::engine::KeyNames;

/// What is written down, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Log {
    /// How much.
    pub level: LevelFilter,
    /// For people or for programs.
    pub format: LogFormat,
    /// What stands for a key, in traces too.
    pub keys: KeyNames,
}

/// Where traces go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// A collector that speaks OTLP over gRPC.
    pub endpoint: String,
    /// The share of requests that are kept, unless their caller has decided: so many of so many.
    pub sample: (u64, u64),
}

/// What a line of the log looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// An object per line, for programs.
    Json,
}

/// The settings of the log.
pub(super) fn log(settings: &Settings, wrong: &mut Vec<Complaint>) -> Option<Log> {
    let level = settings.parsed("log_level", level, wrong);
    let format = settings.parsed("log_format", format, wrong);
    let keys = settings.parsed("log_keys", |text| names(text, settings), wrong);
    Some(Log { level: level?, format: format?, keys: keys? })
}

fn level(text: &str) -> Result<LevelFilter, String> {
    match text {
        "off" => Ok(LevelFilter::OFF),
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        "trace" => Ok(LevelFilter::TRACE),
        _ => Err(none(text, "off, error, warn, info, debug, trace")),
    }
}

fn format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(none(text, "text, json")),
    }
}

fn names(text: &str, settings: &Settings) -> Result<KeyNames, String> {
    let hashed = || {
        let made = KeyNames::hashed(settings.text("hash_secret"));
        made.map_err(|error| error.message().to_owned())
    };
    match text {
        "plain" => hashed().map(KeyNames::plain_in_logs),
        "hashed" => hashed(),
        _ => Err(none(text, "hashed, plain")),
    }
}

/// The settings of traces, if there are to be any.
pub(super) fn traces(settings: &Settings, wrong: &mut Vec<Complaint>) -> Option<Traces> {
    let sample = settings.parsed("trace_sample", fraction, wrong);
    if settings.text("otlp_endpoint").is_empty() {
        return None;
    }
    let endpoint = settings.parsed("otlp_endpoint", endpoint, wrong);
    Some(Traces { endpoint: endpoint?, sample: sample? })
}

fn endpoint(text: &str) -> Result<String, String> {
    let place = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match place {
        Some(place) if !place.is_empty() && !place.contains('@') => Ok(text.to_owned()),
        // It may hold a password: it is not repeated.
        _ => Err("is not accepted; accepted: http://host:4317 or https://host, without a user"
            .to_owned()),
    }
}

/// A share of requests such as `1`, `0` or `1/100`.
fn fraction(text: &str) -> Result<(u64, u64), String> {
    let (part, of) = text.split_once('/').unwrap_or((text, "1"));
    match (whole(part), whole(of)) {
        (Ok(part), Ok(of)) if part <= of && of > 0 => Ok((part, of)),
        _ => Err(none(text, "0, 1, or a fraction such as 1/100")),
    }
}

fn none(text: &str, accepted: &str) -> String {
    format!("{:?} is not accepted; accepted: {accepted}", shown(text))
}
