//! `tollgate serve`: the server, until it is told to end.
#![expect(clippy::print_stdout, reason = "it tells where it listens")]

use std::net::SocketAddr;

use tokio::signal::unix::{SignalKind, signal};
use tollgate_server::{Addresses, Config, Server};

use crate::args::Serve;

/// What a command fails with.
type Failed = Box<dyn std::error::Error>;

pub(crate) fn run(args: &Serve) -> Result<(), Failed> {
    let config = config(args)?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(config))
}

async fn serve(config: Config) -> Result<(), Failed> {
    let server = Server::bind(config).await?;
    let per_process = server.engine().capability().in_process;
    announce(server.addresses()?, per_process);
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    server
        .run(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
        .await;
    Ok(())
}

/// Where it listens, what its limits are worth, and one command to try.
fn announce(addresses: Addresses, per_process: bool) {
    let Addresses { http, grpc, resp } = addresses;
    for (name, address) in [("HTTP", http), ("gRPC", grpc), ("RESP", resp)] {
        match address {
            Some(address) => println!("{name} on {address}"),
            None => println!("{name} off"),
        }
    }
    if per_process {
        println!("Counts are kept in memory: limits are per process, and gone when it ends.");
    }
    if let Some(http) = http {
        println!("Try: curl http://{http}/v1/acquire -d '{{\"key\":\"user:1\"}}'");
    } else if let Some(resp) = resp {
        println!("Try: redis-cli -p {} TG.ACQUIRE default user:1", resp.port());
    }
}

fn config(args: &Serve) -> Result<Config, Failed> {
    let mut config = Config::built_in()?;
    if let Some(store) = &args.store {
        config.store.clone_from(store);
    }
    let given = [
        ("--http", &args.http, &mut config.http),
        ("--grpc", &args.grpc, &mut config.grpc),
        ("--resp", &args.resp, &mut config.resp),
    ];
    for (flag, text, address) in given {
        if let Some(text) = text {
            *address = listen_address(flag, text)?;
        }
    }
    Ok(config)
}

/// An address and a port, or `off`.
fn listen_address(flag: &str, text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    let accepted = "accepted: an address with a port such as 127.0.0.1:8080, or off";
    text.parse().map(Some).map_err(|_| format!("{flag}: {text:?} is no address; {accepted}"))
}
