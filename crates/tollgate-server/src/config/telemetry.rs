//! Settings of logs and traces.

use tollgate_service::config::ConfigError;
use tollgate_service::config::values::one_of;
use tracing::level_filters::LevelFilter;

use super::catalog::Setting;
use super::settings::Settings;
use super::values::fraction;
use crate::telemetry::KeyRedaction;

/// Settings of the log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Log {
    /// The level.
    pub level: LevelFilter,
    /// Text or JSON.
    pub format: LogFormat,
    /// Replaces keys, in traces too.
    pub keys: KeyRedaction,
}

/// Settings of traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// A collector of OTLP over gRPC.
    pub endpoint: String,
    /// The share of requests that are sampled, unless their caller decides: numerator, denominator.
    pub sample: (u64, u64),
}

/// The format of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A line of text.
    Text,
    /// A JSON object per line.
    Json,
}

/// The settings of the log.
pub(super) fn log(settings: &Settings, errors: &mut Vec<ConfigError>) -> Option<Log> {
    let level = settings.parsed(Setting::LogLevel, level, errors);
    let format = settings.parsed(Setting::LogFormat, format, errors);
    let keys = settings.parsed(Setting::LogKeys, |text| redaction(text, settings), errors);
    Some(Log { level: level?, format: format?, keys: keys? })
}

fn level(text: &str) -> Result<LevelFilter, String> {
    one_of(
        text,
        &[
            ("off", LevelFilter::OFF),
            ("error", LevelFilter::ERROR),
            ("warn", LevelFilter::WARN),
            ("info", LevelFilter::INFO),
            ("debug", LevelFilter::DEBUG),
            ("trace", LevelFilter::TRACE),
        ],
    )
}

fn format(text: &str) -> Result<LogFormat, String> {
    one_of(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
}

fn redaction(text: &str, settings: &Settings) -> Result<KeyRedaction, String> {
    let plain = one_of(text, &[("hashed", false), ("plain", true)])?;
    let hashed = KeyRedaction::hashed(settings.text(Setting::HashSecret));
    let hashed = hashed.map_err(|error| error.message().to_owned())?;
    Ok(if plain { hashed.plain_in_logs() } else { hashed })
}

/// The settings of traces, if there are to be any.
pub(super) fn traces(settings: &Settings, errors: &mut Vec<ConfigError>) -> Option<Traces> {
    let sample = settings.parsed(Setting::TraceSample, fraction, errors);
    if settings.text(Setting::OtlpEndpoint).is_empty() {
        return None;
    }
    let endpoint = settings.parsed(Setting::OtlpEndpoint, endpoint, errors);
    Some(Traces { endpoint: endpoint?, sample: sample? })
}

fn endpoint(text: &str) -> Result<String, String> {
    let place = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match place {
        Some(place) if !place.is_empty() && !place.contains('@') => Ok(text.to_owned()),
        // It may hold a password: it is not repeated.
        _ => Err("is not the URL of a collector; write http://host:4317 or https://host, without \
                  a user"
            .to_owned()),
    }
}
