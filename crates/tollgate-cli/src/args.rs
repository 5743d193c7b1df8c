//! The arguments of every command.

use std::path::PathBuf;

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
    Serve(Settings),
    /// Checks a configuration file, and says all that is wrong with it.
    Lint {
        /// The file.
        file: PathBuf,
    },
    /// Looks at the configuration.
    #[command(subcommand)]
    Config(Config),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Prints every setting, secrets hidden, and where it came from.
    Show(Settings),
}

/// Flags win over the environment (TOLLGATE_HTTP and so on), which wins over the file.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// The configuration file; its policies are read again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Where to keep counts: `memory:`.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Where HTTP listens; `off` for nowhere [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Where gRPC listens; `off` for nowhere [default: 127.0.0.1:50051].
    #[arg(long, value_name = "ADDR")]
    grpc: Option<String>,
    /// Where RESP listens; `off` for nowhere [default: 127.0.0.1:6380].
    #[arg(long, value_name = "ADDR")]
    resp: Option<String>,
    /// Listens on addresses that others can reach, though anybody may ask.
    #[arg(long)]
    insecure_public: bool,
}

impl Settings {
    /// The settings that were given, by name.
    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        let insecure = self.insecure_public.then(|| "true".to_owned());
        let given = [
            ("store", &self.store),
            ("http", &self.http),
            ("grpc", &self.grpc),
            ("resp", &self.resp),
            ("insecure_public", &insecure),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        given.collect()
    }
}
