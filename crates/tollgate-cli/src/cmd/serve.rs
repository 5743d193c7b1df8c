//! `tollgate serve`: runs the server until a signal ends it.

use std::io::Write;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tollgate::Code;
use tollgate_server::config::{Config, Sources, hide_password};
use tollgate_server::engine::Engine;
use tollgate_server::{Server, Watch};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::banner::{self, Needs};
use super::{Failed, reload, unknown_variables};
use crate::args::Settings;
use crate::{log, open_files};

/// How often the store is called at the start while it takes too long.
const REACH_ATTEMPTS: u32 = 5;

pub(crate) fn run(settings: &Settings) -> Result<(), Failed> {
    let flags = settings.flags();
    let config = Config::read(&Sources { flags: &flags, file: settings.config.as_deref() })?;
    let (lines, level, _flushed) = log::to_stderr(&config.log)?;
    tracing_subscriber::registry().with(lines).init();
    for warning in unknown_variables() {
        tracing::warn!("{warning}");
    }
    let shortage = open_files::raise(&config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        if let Some(shortage) = shortage {
            tokio::spawn(shortage.watch());
        }
        serve(config, settings, level).await
    })
}

async fn serve(config: Config, settings: &Settings, level: log::Level) -> Result<(), Failed> {
    let (store, needs) = (hide_password(&config.store), Needs::of(&config));
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
    for line in banner::lines(server.addresses()?, remote, &engine.policies(), &needs) {
        // A closed pipe is no reason to end.
        let _unread = writeln!(std::io::stdout(), "{line}");
    }
    let reaching = tokio::spawn(reach(Arc::clone(&engine)));
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
    reaching.abort();
    Ok(())
}

/// Says at once that a store outside of this process does not answer. The server runs without it,
/// by the outage modes, and `/readyz` says when it answers.
async fn reach(engine: Arc<Engine>) {
    if engine.in_process() {
        return;
    }
    for attempt in 1..=REACH_ATTEMPTS {
        let Err(failure) = engine.probe().await else { return };
        // The first call may take longer than others: it connects.
        if attempt == REACH_ATTEMPTS || failure.error.code() != Code::Timeout {
            let error = failure.error;
            tracing::warn!(
                %error,
                "the store does not answer; until it does, decisions follow the outage modes"
            );
            return;
        }
    }
}
