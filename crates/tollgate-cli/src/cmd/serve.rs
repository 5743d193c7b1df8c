//! `tollgate serve`: runs the server until a signal ends it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate::Code;
use tollgate_server::Server;
use tollgate_server::config::{Config, Setting, Sources, hide_password};
use tollgate_server::engine::Engine;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::banner::{self, Needs};
use super::{Failed, unknown_variables};
use crate::args::Settings;
use crate::{log, open_files};

/// How often the file is read for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often the store is called at the start while it takes too long.
const REACH_ATTEMPTS: u32 = 5;

pub(crate) fn run(settings: &Settings) -> Result<(), Failed> {
    let flags = settings.flags();
    let config = Config::read(&Sources { flags: &flags, file: settings.config.as_deref() })?;
    let (lines, _flushed) = log::to_stderr(&config.log)?;
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
        serve(config, settings).await
    })
}

async fn serve(config: Config, settings: &Settings) -> Result<(), Failed> {
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
    let reloading = match settings.config.clone() {
        Some(file) => tokio::spawn(reload(engine, file, settings.flags(), hangup)),
        None => tokio::spawn(async {}),
    };
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

/// Reloads the policies when the file changes, and on SIGHUP. An invalid file is logged, and
/// changes nothing.
async fn reload(
    engine: Arc<Engine>,
    file: PathBuf,
    flags: Vec<(Setting, String)>,
    mut hangup: Signal,
) {
    let mut applied = contents(&file).await;
    let mut previous = applied.clone();
    let mut poll = tokio::time::interval(POLL_INTERVAL);
    loop {
        let signalled = tokio::select! {
            _ = hangup.recv() => true,
            _ = poll.tick() => false,
        };
        let now = contents(&file).await;
        // Many programs truncate a file before they write it. Half a file can be valid, with half
        // of the policies: two reads must agree. A signal means that the file is complete.
        let is_settled = now.is_some() && now == previous;
        if signalled || (is_settled && now != applied) {
            apply(&engine, &file, now.clone(), &flags);
            applied.clone_from(&now);
        }
        previous = now;
    }
}

async fn contents(file: &Path) -> Option<Vec<u8>> {
    let file = file.to_owned();
    tokio::task::spawn_blocking(move || std::fs::read(file).ok()).await.ok().flatten()
}

/// Applies the contents of the file. It is not read again: it may have changed since.
fn apply(engine: &Engine, file: &Path, contents: Option<Vec<u8>>, flags: &[(Setting, String)]) {
    let config = match contents {
        Some(bytes) => Config::of_bytes(flags, file, bytes),
        // Reading it again gives the error.
        None => Config::read(&Sources { flags, file: Some(file) }),
    };
    match config {
        Ok(config) => {
            engine.replace_policies(config.policies);
            tracing::info!("policies were reloaded");
        }
        Err(errors) => {
            engine.refuse_policies();
            tracing::error!(%errors, "the file is invalid; the policies stay as they were");
        }
    }
}
