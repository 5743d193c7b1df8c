//! The address of a server, and connections to it: with TLS or without, for every protocol.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tollgate_net::tls::{Tls, TlsFiles};

use super::{Failed, Usage};
use crate::args::Server;

/// How long connecting may take, with the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection of either kind.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection.
pub(super) type Stream = Box<dyn Duplex>;

/// Where a server listens, and how connections to it are encrypted.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    host: String,
    port: u16,
    tls: Option<Tls>,
}

/// The parts of an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    pub(super) scheme: Option<&'a str>,
    host: &'a str,
    port: Option<u16>,
}

impl<'a> Parts<'a> {
    /// Splits `scheme://host:port`, of which host or port suffices.
    ///
    /// # Errors
    /// What is accepted. The address is not repeated: it may hold a password.
    pub(super) fn of(address: &'a str) -> Result<Self, Usage> {
        let wrong = || {
            Usage(
                "--server: is not the address of a server; write https://host, host:8080, \
                   localhost or :8080"
                    .to_owned(),
            )
        };
        let (scheme, place) = match address.split_once("://") {
            Some((scheme, place)) => (Some(scheme), place),
            None => (None, address),
        };
        let place = place.strip_suffix('/').unwrap_or(place);
        let is_inner = |c: char| c.is_ascii_alphanumeric() || "-._:[]%".contains(c);
        if place.is_empty() || !place.chars().all(is_inner) {
            return Err(wrong());
        }
        let (host, port) = match (place.strip_prefix('['), place.matches(':').count()) {
            (Some(rest), _) => rest.split_once(']').ok_or_else(wrong)?,
            // An IPv6 address without a port.
            (None, 2..) => (place, ""),
            (None, _) => place.split_at(place.find(':').unwrap_or(place.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => Some(port.parse().map_err(|_| wrong())?),
            None if port.is_empty() => None,
            None => return Err(wrong()),
        };
        let host = if host.is_empty() { "localhost" } else { host };
        Ok(Self { scheme, host, port })
    }
}

impl Endpoint {
    /// The HTTP interface of a server.
    ///
    /// # Errors
    /// When the address or a certificate is wrong.
    pub(super) fn of_http(server: &Server) -> Result<Self, Failed> {
        let parts = Parts::of(&server.server)?;
        match parts.scheme {
            None => Self::new(&parts, None, 8080, server),
            Some("http") => Self::new(&parts, Some(false), 80, server),
            Some("https") => Self::new(&parts, Some(true), 443, server),
            Some(_) => Err(Usage("--server: write http:// or https://".to_owned()).into()),
        }
    }

    /// A listener. Whether it has TLS is what the scheme says; without one, it has if there are
    /// files for it.
    ///
    /// # Errors
    /// When files are missing, wrong, or not needed.
    pub(super) fn new(
        parts: &Parts<'_>,
        is_encrypted: Option<bool>,
        otherwise: u16,
        server: &Server,
    ) -> Result<Self, Failed> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let identity = server.cert.as_deref().zip(server.cert_key.as_deref());
        let files = TlsFiles {
            ca: server.ca.as_deref().map(text),
            identity: identity.map(|(cert, key)| (text(cert), text(key))),
            server_name: None,
        };
        let has_files = files != TlsFiles::default();
        let tls = match is_encrypted {
            Some(false) if has_files => {
                let message = "--ca and --cert are for TLS, and the address has none; write \
                               https://";
                return Err(Usage(message.to_owned()).into());
            }
            Some(false) => None,
            None if !has_files => None,
            Some(true) | None => {
                let wrong = |error: tollgate::Error| {
                    let name = match error.field() {
                        Some("key") => "cert-key",
                        Some(name) => name,
                        None => "server",
                    };
                    Usage(format!("--{name}: {}", error.message()))
                };
                Some(Tls::new(&files).map_err(wrong)?)
            }
        };
        Ok(Self { host: parts.host.to_owned(), port: parts.port.unwrap_or(otherwise), tls })
    }

    /// Host and port, as the header `Host` has them.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Connects; requests are sent at once.
    ///
    /// # Errors
    /// When the server does not answer in time, or its certificate is not trusted.
    pub(super) async fn connect(&self) -> Result<Stream, Failed> {
        let connecting = async {
            let authority = self.authority();
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
            let stream =
                stream.map_err(|error| format!("cannot connect to {authority}: {error}"))?;
            stream.set_nodelay(true)?;
            let Some(tls) = &self.tls else { return Ok(Box::new(stream) as Stream) };
            match tls.encrypt(&self.host, stream).await {
                Ok(stream) => Ok(Box::new(stream) as Stream),
                Err(error) => Err(Failed::from(format!(
                    "{} (--ca names the authority of its certificate)",
                    error.message()
                ))),
            }
        };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let late = || format!("{} did not answer in {CONNECT_TIMEOUT:?}", self.authority());
        connected.unwrap_or_else(|_| Err(late().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(address: &str) -> Option<(Option<&str>, &str, Option<u16>)> {
        Parts::of(address).ok().map(|Parts { scheme, host, port }| (scheme, host, port))
    }

    #[test]
    fn an_address_is_a_name_a_port_or_both() {
        for (address, expected) in [
            ("localhost", (None, "localhost", None)),
            (":9000", (None, "localhost", Some(9_000))),
            ("limits.internal:80", (None, "limits.internal", Some(80))),
            ("https://limits.internal/", (Some("https"), "limits.internal", None)),
            ("http://127.0.0.1:8080", (Some("http"), "127.0.0.1", Some(8_080))),
            ("[::1]:8080", (None, "::1", Some(8_080))),
            ("[::1]", (None, "::1", None)),
            ("::1", (None, "::1", None)),
            ("resp://:6380", (Some("resp"), "localhost", Some(6_380))),
        ] {
            assert_eq!(parts(address), Some(expected), "{address}");
        }
        for wrong in ["", "http://", "a b", "host:port", "host:70000", "u:p@host", "host/path", "["]
        {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }
}
