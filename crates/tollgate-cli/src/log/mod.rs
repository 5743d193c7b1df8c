//! The log on standard error: lines of text, or JSON objects.

mod lines;

use std::io;

use tollgate_server::config::{Log, LogFormat};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;

use lines::Lines;

/// The configured level for this project; only warnings and errors of libraries, whose finer levels
/// show bytes of connections, and with them keys and tokens.
fn filter(level: LevelFilter) -> Targets {
    Targets::new().with_target("tollgate", level).with_default(level.min(LevelFilter::WARN))
}

/// The end of the process: lines that wait are written when this is dropped.
#[must_use = "lines that wait are lost"]
pub(crate) struct Flush(Lines);

impl Drop for Flush {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// Sets the level of the log while the program runs.
pub(crate) struct Level(Box<dyn Fn(LevelFilter) + Send + Sync>);

impl Level {
    /// Sets the level.
    pub(crate) fn set(&self, level: LevelFilter) {
        (self.0)(level);
    }
}

/// A layer that writes lines, its level, and its end.
type Logging<S> = (Box<dyn Layer<S> + Send + Sync>, Level, Flush);

/// The layer that writes to standard error, by a thread of its own.
///
/// # Errors
/// When the operating system cannot start the thread.
pub(crate) fn to_stderr<S>(log: &Log) -> io::Result<Logging<S>>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let (filter, handle) = reload::Layer::new(filter(log.level));
    // The filter lives as long as the program.
    let level = Level(Box::new(move |level| drop(handle.reload(self::filter(level)))));
    let queued = Lines::start(io::stderr())?;
    // Another crate may have enabled colours.
    let lines = layer().with_writer(queued.clone()).with_ansi(false);
    let layer = match log.format {
        LogFormat::Text => lines.with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    };
    Ok((layer, level, Flush(queued)))
}
