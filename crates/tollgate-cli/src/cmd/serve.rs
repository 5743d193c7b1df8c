//! `tollgate serve`: the server, until it is told to end.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate_server::Server;
use tollgate_server::config::{Config, Sources, hide_password};
use tollgate_server::engine::Engine;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::{Failed, announce};
use crate::args::Settings;
use crate::{log, open_files};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn run(settings: &Settings) -> Result<(), Failed> {
    let flags = settings.flags();
    let config = Config::read(&Sources { flags: &flags, file: settings.config.as_deref() })?;
    tracing_subscriber::registry().with(log::to_stderr(&config.log)).init();
    if let Err(shortage) = open_files::allow(&config) {
        tracing::warn!("{shortage}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(config, settings))
}

async fn serve(config: Config, settings: &Settings) -> Result<(), Failed> {
    let store = hide_password(&config.store);
    let server = Server::bind(config).await?;
    let engine = server.engine();
    // Before it says that it is there: from then on, signals are meant for it.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let hangup = signal(SignalKind::hangup())?;
    let elsewhere = (!engine.capability().in_process).then_some(&*store);
    for line in announce::lines(server.addresses()?, elsewhere, &engine.policies()) {
        // Whoever started it need not read all of it, and is no reason to end.
        let _unread = writeln!(std::io::stdout(), "{line}");
    }
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
    Ok(())
}

/// Reads the policies again when the file changes, and on SIGHUP. A file that is wrong is complained
/// about, and changes nothing.
async fn reload(
    engine: Arc<Engine>,
    file: PathBuf,
    flags: Vec<(&'static str, String)>,
    mut hangup: Signal,
) {
    let mut applied = contents(&file).await;
    let mut last_look = applied.clone();
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        let told = tokio::select! {
            _ = hangup.recv() => true,
            _ = look.tick() => false,
        };
        let now = contents(&file).await;
        // Many programs empty a file before they write it. Half a file can be a valid one, with
        // half of the policies: what is looked at must hold still. Whoever sends a signal is done.
        let is_settled = now.is_some() && now == last_look;
        if told || (is_settled && now != applied) {
            read_again(&engine, &file, now.clone(), &flags);
            applied.clone_from(&now);
        }
        last_look = now;
    }
}

async fn contents(file: &Path) -> Option<Vec<u8>> {
    let file = file.to_owned();
    tokio::task::spawn_blocking(move || std::fs::read(file).ok()).await.ok().flatten()
}

/// Applies what was read of the file. It is not read once more: it may have changed since.
fn read_again(
    engine: &Engine,
    file: &Path,
    contents: Option<Vec<u8>>,
    flags: &[(&'static str, String)],
) {
    let config = match contents {
        Some(bytes) => Config::of_bytes(flags, file, bytes),
        // Only who tries can say why it cannot be read.
        None => Config::read(&Sources { flags, file: Some(file) }),
    };
    match config {
        Ok(config) => {
            engine.replace_policies(config.policies);
            tracing::info!("policies were read again");
        }
        Err(complaints) => {
            engine.refuse_policies();
            tracing::error!(%complaints, "the file is wrong; the policies stay as they were");
        }
    }
}
