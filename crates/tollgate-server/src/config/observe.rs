//! What a server tells whoever watches it: logs.

use tracing::level_filters::LevelFilter;

use super::complaint::Complaint;
use super::settings::Settings;
use super::values::shown;
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
    match text {
        "plain" => Ok(KeyNames::plain()),
        "hashed" => KeyNames::hashed(settings.text("hash_secret"))
            .map_err(|error| error.message().to_owned()),
        _ => Err(none(text, "hashed, plain")),
    }
}

fn none(text: &str, accepted: &str) -> String {
    format!("{:?} is not accepted; accepted: {accepted}", shown(text))
}
