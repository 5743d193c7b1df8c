//! The arguments of every command.

use std::fmt;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use tollgate_server::config::Setting;
use tollgate_server::store;

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
    /// Charges a key on a server.
    #[command(after_help = CODES)]
    Acquire(Check),
    /// Asks a server for the decision, without charging anything.
    #[command(after_help = CODES)]
    Peek(Check),
    /// Sets the final cost of what `acquire` has charged, by its receipt: once.
    #[command(after_help = CODES)]
    Settle(Settle),
    /// Forgets what a key has spent on a server.
    #[command(after_help = CODES)]
    Reset {
        #[command(flatten)]
        server: Server,
        /// The policy.
        #[arg(long, default_value = "default")]
        policy: String,
        /// The key.
        key: String,
    },
    /// Examines a store: whether it answers, its latency, whether it is exact, and what to change.
    Doctor {
        /// The URL of the store [default: the one that `serve` would use].
        #[arg(long, value_name = "URL")]
        store: Option<String>,
        /// The configuration file; it is compared with the checklist for production.
        #[arg(long, value_name = "FILE", env = "TOLLGATE_CONFIG")]
        config: Option<PathBuf>,
    },
    /// Sends requests at a fixed rate, and verifies that no more than the limit is admitted.
    #[command(after_help = CODES)]
    Bench(Bench),
    /// Creates or migrates the tables of a store, for database users without that right at run
    /// time.
    Migrate {
        /// The URL of the store.
        #[arg(long, value_name = "URL", env = "TOLLGATE_STORE", hide_env_values = true)]
        store: String,
    },
    /// Prints completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Prints the manual pages of all commands.
    Man {
        /// Writes a file for each page into this folder instead: `tollgate.1`, `tollgate-serve.1`.
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
    /// Validates configuration files, and prints all their errors.
    Lint {
        /// The files; `-` is standard input.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Prints the configuration, or its schema.
    #[command(subcommand)]
    Config(Config),
}

/// The exit codes of commands that ask a server.
const CODES: &str = "Exit codes: 0 allowed or done, 1 denied or refused by a rule, \
                     2 wrong arguments, 3 the server could not be asked";

/// The server, the token and the certificates of a client.
#[derive(Clone, clap::Args)]
pub(crate) struct Server {
    /// The HTTP address of the server: `https://host`, `host:8080`, `localhost` or `:8080`.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(crate) server: String,
    /// The token of a caller or an administrator.
    #[arg(long, env = "TOLLGATE_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// The authority of the server's certificate, as PEM [default: those of the operating system].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// A client certificate with its chain, as PEM.
    #[arg(long, value_name = "FILE", requires = "cert_key")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of the client certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) cert_key: Option<PathBuf>,
}

/// Omits the token.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A request for a decision.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) server: Server,
    /// The policy.
    #[arg(long, default_value = "default")]
    pub(crate) policy: String,
    /// Units requested.
    #[arg(long, default_value_t = 1)]
    pub(crate) cost: u64,
    /// Takes as many units as there are: at least the cost, at most this many.
    #[arg(long, value_name = "UNITS")]
    pub(crate) up_to: Option<u64>,
    /// Requests with the same id are charged once.
    #[arg(long)]
    pub(crate) request_id: Option<String>,
    /// Prints the receipt of the charge too, for `tollgate settle`.
    #[arg(long)]
    pub(crate) receipt: bool,
    /// Prints the JSON of the response.
    #[arg(long)]
    pub(crate) json: bool,
    /// The key.
    pub(crate) key: String,
}

/// The final cost of a charge.
#[derive(Debug, clap::Args)]
pub(crate) struct Settle {
    #[command(flatten)]
    pub(crate) server: Server,
    /// Units that were used, under every limit of the receipt; 0 gives all back.
    #[arg(long, value_name = "UNITS", required_unless_present = "costs")]
    pub(crate) cost: Option<u64>,
    /// Units that were used, under one limit: its name, or policy/name.
    #[arg(long = "limit", value_name = "NAME=UNITS", value_parser = named, conflicts_with = "cost")]
    pub(crate) costs: Vec<(String, u64)>,
    /// Prints the JSON of the response.
    #[arg(long)]
    pub(crate) json: bool,
    /// The receipt: `receipt` in the JSON of an allowed answer.
    pub(crate) receipt: String,
}

/// `second=12`.
fn named(text: &str) -> Result<(String, u64), String> {
    let parts = text.rsplit_once('=').and_then(|(name, units)| Some((name, units.parse().ok()?)));
    let (name, units) = parts.ok_or("accepted: the name of a limit and units, such as day=12")?;
    Ok((name.to_owned(), units))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Prints every setting with its source; secrets are hidden.
    Show(Settings),
    /// Prints a JSON Schema of the configuration file, for editors.
    Schema,
}

/// Flags override the environment (TOLLGATE_HTTP and so on), which overrides the file.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// The configuration file; it is read again when it changes, and on SIGHUP.
    #[arg(long, value_name = "FILE", env = "TOLLGATE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    #[arg(long, value_name = "URL", help = store_help())]
    store: Option<String>,
    /// Address of the HTTP listener, or `off` [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Address of the gRPC listener, or `off` [default: 127.0.0.1:50051].
    #[arg(long, value_name = "ADDR")]
    grpc: Option<String>,
    /// Address of the RESP listener, or `off` [default: 127.0.0.1:6380].
    #[arg(long, value_name = "ADDR")]
    resp: Option<String>,
    /// Allows listeners on public addresses without tokens or client certificates.
    #[arg(long)]
    insecure_public: bool,
    /// The log level: `off`, `error`, `warn`, `info`, `debug` or `trace` [default: info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// The log format: `text` or `json` [default: text].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Keys in logs: `hashed` or `plain`; traces always have hashes [default: hashed].
    #[arg(long, value_name = "FORM")]
    log_keys: Option<String>,
}

impl Settings {
    /// The settings of the flags.
    pub(crate) fn flags(&self) -> Vec<(Setting, String)> {
        let insecure = self.insecure_public.then(|| "true".to_owned());
        let given = [
            (Setting::Store, &self.store),
            (Setting::Http, &self.http),
            (Setting::Grpc, &self.grpc),
            (Setting::Resp, &self.resp),
            (Setting::InsecurePublic, &insecure),
            (Setting::LogLevel, &self.log_level),
            (Setting::LogFormat, &self.log_format),
            (Setting::LogKeys, &self.log_keys),
        ];
        given.into_iter().filter_map(|(setting, value)| Some((setting, value.clone()?))).collect()
    }
}

/// The help of `--store`: every scheme that the server can open.
fn store_help() -> String {
    let schemes: Vec<String> = store::schemes().map(|scheme| format!("`{scheme}:`")).collect();
    let default = Setting::Store.built_in();
    format!("The URL of the store, of one of {} [default: {default}]", schemes.join(", "))
}
