//! What `tollgate bench` is told.

use std::time::Duration;

use clap::ValueEnum;
use tollgate_server::config::duration;

use crate::args::Server;

/// How requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    Http,
    Grpc,
    Resp,
}

/// Load at a fixed rate, whatever the server does.
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    /// The server is asked over HTTP which limits apply, so that what it admits can be checked.
    #[command(flatten)]
    pub(crate) server: Server,
    /// Where the load goes: `http://`, `grpc://` or `resp://` with host and port [default: the server].
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// How it is sent, if the address does not say.
    #[arg(long)]
    pub(crate) protocol: Option<Protocol>,
    /// Requests per second, over all connections.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) rate: u64,
    /// For how long, such as 10s or 2m.
    #[arg(long, default_value = "10s", value_parser = time)]
    pub(crate) duration: Duration,
    /// Connections, each of which has one request under way.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) connections: u64,
    /// The policy.
    #[arg(long, default_value = "default")]
    pub(crate) policy: String,
    /// Units that each request asks for.
    #[arg(long, default_value_t = 1)]
    pub(crate) cost: u64,
    /// The key [default: fresh keys].
    #[arg(long, conflicts_with = "keys")]
    pub(crate) key: Option<String>,
    /// How many fresh keys, in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) keys: u64,
    /// Prints the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

fn time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time > Duration::from_secs(7 * 86_400) => Err("accepted: up to 7d".to_owned()),
        time if time.is_zero() => Err("accepted: more than nothing".to_owned()),
        time => Ok(time),
    }
}

/// Where the load goes, and how it is spoken there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) protocol: Protocol,
    /// Host and port.
    pub(super) place: String,
}

impl Bench {
    /// Where the load goes.
    ///
    /// # Errors
    /// When address and protocol contradict each other, or say too little.
    pub(super) fn target(&self) -> Result<Target, String> {
        let url = self.url.as_deref().unwrap_or(&self.server.server);
        let (scheme, place) = match url.split_once("://") {
            Some((scheme, place)) => (Some(scheme), place),
            None => (None, url),
        };
        let spoken = match scheme {
            None => None,
            Some("http") => Some(Protocol::Http),
            Some("grpc") => Some(Protocol::Grpc),
            Some("resp" | "redis") => Some(Protocol::Resp),
            Some(_) => return Err("--url: accepted: http://, grpc:// or resp://".to_owned()),
        };
        let protocol = match (spoken, self.protocol) {
            (Some(spoken), Some(said)) if spoken != said => {
                let where_to = "--protocol: the address speaks another; give it with --url";
                return Err(where_to.to_owned());
            }
            (spoken, said) => said.or(spoken).unwrap_or(Protocol::Http),
        };
        Ok(Target { protocol, place: place.trim_end_matches('/').to_owned() })
    }
}
