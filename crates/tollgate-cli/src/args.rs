//! The arguments of every command.

use std::fmt;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::cmd::bench::Bench;

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
    /// Charges a key on a server; fails if it is not allowed.
    Acquire(Ask),
    /// What a server would answer, without charging anything.
    Peek(Ask),
    /// Makes a server forget what a key has spent.
    Reset {
        #[command(flatten)]
        server: Server,
        /// The policy.
        #[arg(long, default_value = "default")]
        policy: String,
        /// The key.
        key: String,
    },
    /// Examines a store: whether it answers, how fast, how exactly, and what to change.
    Doctor {
        /// The address of the store [default: the one that `serve` would use].
        #[arg(long, value_name = "URL")]
        store: Option<String>,
        /// The configuration file: it is held against the checklist before going live.
        #[arg(long, value_name = "FILE", env = "TOLLGATE_CONFIG")]
        config: Option<PathBuf>,
    },
    /// Sends load at a fixed rate, and checks that the limit is kept under it.
    Bench(Bench),
    /// Makes or changes the tables of a store, for users who may not make them when it is first asked.
    Migrate {
        /// The address of the store.
        #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
        store: String,
    },
    /// Prints completions for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Prints the manual page.
    Man,
    /// Checks a configuration file, and says all that is wrong with it.
    Lint {
        /// The file.
        file: PathBuf,
    },
    /// Looks at the configuration.
    #[command(subcommand)]
    Config(Config),
}

/// Which server, and how to be let in.
#[derive(clap::Args)]
pub(crate) struct Server {
    /// Where the server speaks HTTP.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) server: String,
    /// The token of a caller, or of an administrator.
    #[arg(long, env = "TOLLGATE_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
}

/// A token is never printed.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("server", &self.server).finish_non_exhaustive()
    }
}

/// What is asked of a server.
#[derive(Debug, clap::Args)]
pub(crate) struct Ask {
    #[command(flatten)]
    pub(crate) server: Server,
    /// The policy.
    #[arg(long, default_value = "default")]
    pub(crate) policy: String,
    /// Units asked for.
    #[arg(long, default_value_t = 1)]
    pub(crate) cost: u64,
    /// Charged at most once under this id.
    #[arg(long)]
    pub(crate) request_id: Option<String>,
    /// Prints the answer as it came.
    #[arg(long)]
    pub(crate) json: bool,
    /// The key.
    pub(crate) key: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Prints every setting, secrets hidden, and where it came from.
    Show(Settings),
    /// Prints a JSON Schema of the configuration file, for editors.
    Schema,
}

/// Flags win over the environment (TOLLGATE_HTTP and so on), which wins over the file.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// The configuration file; its policies are read again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Where to keep counts: `memory:`, `redis://host`, `rediss://`, `redis-cluster://`,
    /// `rediss-cluster://`, `redis-sentinel://`, `postgres://`, `dynamodb://table`, `denokv+http(s)://` or `sqlite:path`.
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
    /// How much is logged: `off`, `error`, `warn`, `info`, `debug` or `trace` [default: info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// How it is logged: `text` or `json` [default: text].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// How keys appear in logs and traces: `hashed` or `plain` [default: hashed].
    #[arg(long, value_name = "HOW")]
    log_keys: Option<String>,
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
            ("log_level", &self.log_level),
            ("log_format", &self.log_format),
            ("log_keys", &self.log_keys),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        given.collect()
    }
}
