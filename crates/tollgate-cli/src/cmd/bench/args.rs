//! The arguments of `tollgate bench`.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use tollgate_server::config::duration;

use crate::args::Server;
use crate::cmd::endpoint::{Endpoint, Parts};
use crate::cmd::{Failed, Usage};

/// The protocol of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    Http,
    Grpc,
    Resp,
}

impl Protocol {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
        }
    }
}

/// Requests at a fixed rate, independent of the responses.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Bench {
    /// The limits are requested from this server, so that the result can be verified.
    #[command(flatten)]
    pub(crate) server: Server,
    /// The target of the load: `http://`, `grpc://` or `resp://` with host and port, with an `s`
    /// before the colon for TLS [default: the server].
    #[arg(long)]
    pub(crate) url: Option<String>,
    /// The protocol, if the URL has none.
    #[arg(long)]
    pub(crate) protocol: Option<Protocol>,
    /// Requests per second, over all connections.
    #[arg(long, default_value_t = 1_000, value_parser = range(1..=10_000_000))]
    pub(crate) rate: u64,
    /// The duration, such as 10s or 2m.
    #[arg(long, default_value = "10s", value_parser = time)]
    pub(crate) duration: Duration,
    /// Connections; each has one request under way.
    #[arg(long, default_value_t = 32, value_parser = range(1..=100_000))]
    pub(crate) connections: u64,
    /// The policy.
    #[arg(long, default_value = "default")]
    pub(crate) policy: String,
    /// Units per request.
    #[arg(long, default_value_t = 1)]
    pub(crate) cost: u64,
    /// The key [default: keys that are new in this run].
    #[arg(long, conflicts_with = "keys")]
    pub(crate) key: Option<String>,
    /// The number of new keys, used in turn.
    #[arg(long, default_value_t = 1, value_parser = range(1..=10_000_000))]
    pub(crate) keys: u64,
    /// Prints the result as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

fn range(accepted: RangeInclusive<u64>) -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(accepted)
}

fn time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time > Duration::from_secs(7 * 86_400) => Err("is too long; up to 7d".to_owned()),
        time if time.is_zero() => Err("is too short; write more than 0".to_owned()),
        time => Ok(time),
    }
}

/// The target of the load.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) protocol: Protocol,
    pub(super) endpoint: Endpoint,
}

impl Bench {
    /// The target of the load.
    ///
    /// # Errors
    /// When the URL and the protocol contradict each other, the scheme is unknown, or a certificate
    /// cannot be used.
    pub(super) fn target(&self) -> Result<Target, Failed> {
        let url = self.url.as_deref().unwrap_or(&self.server.server);
        let parts = Parts::of(url)?;
        let by_scheme = match parts.scheme {
            None => None,
            Some("http") => Some((Protocol::Http, false, 80)),
            Some("https") => Some((Protocol::Http, true, 443)),
            Some("grpc") => Some((Protocol::Grpc, false, 50_051)),
            Some("grpcs") => Some((Protocol::Grpc, true, 50_051)),
            Some("resp" | "redis") => Some((Protocol::Resp, false, 6_380)),
            Some("resps" | "rediss") => Some((Protocol::Resp, true, 6_380)),
            Some(_) => {
                let message = "--url: write http://, https://, grpc://, grpcs://, resp:// or \
                               resps://";
                return Err(Usage(message.to_owned()).into());
            }
        };
        let (protocol, is_encrypted, port) = match (by_scheme, self.protocol) {
            (Some((one, ..)), Some(other)) if one != other => {
                let message = "--protocol: the URL has another one; give its address with --url";
                return Err(Usage(message.to_owned()).into());
            }
            (Some((protocol, is_encrypted, port)), _) => (protocol, Some(is_encrypted), port),
            (None, Some(Protocol::Grpc)) => (Protocol::Grpc, None, 50_051),
            (None, Some(Protocol::Resp)) => (Protocol::Resp, None, 6_380),
            (None, Some(Protocol::Http) | None) => (Protocol::Http, None, 8_080),
        };
        let endpoint = Endpoint::new(&parts, is_encrypted, port, &self.server)?;
        Ok(Target { protocol, endpoint })
    }
}
