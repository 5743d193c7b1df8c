//! The arguments of every command.

use clap::{Parser, Subcommand};

/// Decides, exactly and fast, whether a request may pass now.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the server.
    Serve(Serve),
}

/// Where the server listens, and what it keeps its counts in.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Where to keep counts: `memory:`.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Where HTTP listens; `off` for nowhere [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// Where gRPC listens; `off` for nowhere [default: 127.0.0.1:50051].
    #[arg(long, value_name = "ADDR")]
    pub(crate) grpc: Option<String>,
    /// Where RESP listens; `off` for nowhere [default: 127.0.0.1:6380].
    #[arg(long, value_name = "ADDR")]
    pub(crate) resp: Option<String>,
}
