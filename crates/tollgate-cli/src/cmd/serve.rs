//! `tollgate serve`: the server, until it is told to end.
#![expect(clippy::print_stdout, reason = "it tells where it listens")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate_server::config::{Config, Sources, hide_password};
use tollgate_server::engine::Engine;
use tollgate_server::policy::Policies;
use tollgate_server::{Addresses, Server};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::Failed;
use crate::args::Settings;
use crate::log;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn run(settings: &Settings) -> Result<(), Failed> {
    let flags = settings.flags();
    let config = Config::read(&Sources { flags: &flags, file: settings.config.as_deref() })?;
    tracing_subscriber::registry().with(log::to_stderr(&config.log)).init();
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
    announce(server.addresses()?, &store, &engine);
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
            read_again(&engine, &file, &flags);
            applied.clone_from(&now);
        }
        last_look = now;
    }
}

async fn contents(file: &Path) -> Option<Vec<u8>> {
    let file = file.to_owned();
    tokio::task::spawn_blocking(move || std::fs::read(file).ok()).await.ok().flatten()
}

fn read_again(engine: &Engine, file: &Path, flags: &[(&'static str, String)]) {
    match Config::read(&Sources { flags, file: Some(file) }) {
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

/// Where it listens, what its limits are worth, and one command to try.
fn announce(addresses: Addresses, store: &str, engine: &Engine) {
    let Addresses { http, grpc, resp } = addresses;
    for (name, address) in [("HTTP", http), ("gRPC", grpc), ("RESP", resp)] {
        match address {
            Some(address) => println!("{name} on {address}"),
            None => println!("{name} off"),
        }
    }
    if engine.capability().in_process {
        println!("Counts are kept in memory: limits are per process, and gone when it ends.");
    } else {
        println!("Counts are kept in {store}");
        tell_modes(&engine.policies());
    }
    if let Some(http) = http {
        println!("Try: curl http://{http}/v1/acquire -d '{{\"key\":\"user:1\"}}'");
    } else if let Some(resp) = resp {
        println!("Try: redis-cli -p {} TG.ACQUIRE default user:1", resp.port());
    }
}

/// What each policy does when the store cannot answer.
fn tell_modes(policies: &Policies) {
    for policy in policies.iter() {
        let modes: Vec<&str> =
            policy.limits().iter().map(|limit| limit.outage_mode().as_str()).collect();
        println!("Policy {}: {} in an outage", policy.name(), modes.join(", "));
    }
}
