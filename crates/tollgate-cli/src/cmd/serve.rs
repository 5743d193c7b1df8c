//! `tollgate serve`: runs the server until a signal ends it.

use std::io::Write;

use tokio::signal::unix::{SignalKind, signal};
use tollgate_server::config::{Config, Sources, hide_password};
use tollgate_server::{Server, Watch};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::{Failed, banner, reload};
use crate::args::Settings;
use crate::{log, open_files};

pub(crate) fn run(settings: &Settings) -> Result<(), Failed> {
    let flags = settings.flags();
    let config = Config::read(&Sources { flags: &flags, file: settings.config.as_deref() })?;
    let (lines, level, _flushed) = log::to_stderr(&config.log)?;
    tracing_subscriber::registry().with(lines).init();
    if let Err(shortage) = open_files::raise(&config) {
        tracing::warn!("{shortage}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(config, settings, level))
}

async fn serve(config: Config, settings: &Settings, level: log::Level) -> Result<(), Failed> {
    let store = hide_password(&config.store);
    // A file that may not grow any more (ulimit -f) is an error of its store, and must not end the
    // process, as the signal would without a handler.
    let _file_size = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
    let server = Server::bind(config).await?;
    let engine = server.engine();
    // Before the banner: a program that has read it may send signals.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let hangup = signal(SignalKind::hangup())?;
    let remote = (!engine.in_process()).then_some(&*store);
    for line in banner::lines(server.addresses()?, remote, &engine.policies()) {
        // A closed pipe is no reason to end.
        let _unread = writeln!(std::io::stdout(), "{line}");
    }
    let watch = Watch::new(server.reloader(), settings.flags(), settings.config.clone());
    let reloading = tokio::spawn(reload::run(watch, level, hangup));
    server
        .run(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
        .await;
    reloading.abort();
    Ok(())
}
