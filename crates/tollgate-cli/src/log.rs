//! The log on standard error: lines of text, or JSON objects.

use std::io;

use tollgate_server::config::{Log, LogFormat};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::registry::LookupSpan;

/// The configured level for this project; only warnings and errors of libraries, whose finer levels
/// show bytes of connections, and with them keys and tokens.
fn filter(level: LevelFilter) -> Targets {
    Targets::new().with_target("tollgate", level).with_default(level.min(LevelFilter::WARN))
}

/// The layer that writes to standard error.
pub(crate) fn to_stderr<S>(log: &Log) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let filter = filter(log.level);
    // Another crate may have enabled colours.
    let lines = layer().with_writer(io::stderr).with_ansi(false);
    match log.format {
        LogFormat::Text => lines.with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    }
}
