//! The log: lines for people or objects for programs, on standard error.

use std::io;

use tollgate_server::config::{Log, LogFormat};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::registry::LookupSpan;

/// What of this project may be written down at its level; of libraries, only what goes wrong: their
/// finer levels show bytes of connections, and with them keys and tokens.
fn chosen(level: LevelFilter) -> Targets {
    Targets::new().with_target("tollgate", level).with_default(level.min(LevelFilter::WARN))
}

/// Writes what happens to standard error.
pub(crate) fn to_stderr<S>(log: &Log) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let filter = chosen(log.level);
    // Whether colours are compiled in depends on who else uses the library.
    let lines = layer().with_writer(io::stderr).with_ansi(false);
    match log.format {
        LogFormat::Text => lines.with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    }
}
