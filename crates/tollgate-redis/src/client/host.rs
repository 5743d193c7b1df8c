//! Where a server is.

use core::fmt;

use tollgate_core::{Error, Result};

/// The port that Redis has by default, and that of its sentinels.
pub(crate) const PORT: u16 = 6379;
pub(crate) const SENTINEL_PORT: u16 = 26379;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Host {
    name: String,
    port: u16,
}

impl Host {
    pub(crate) fn new(name: &str, port: u16) -> Self {
        Self { name: name.to_owned(), port }
    }

    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`.
    ///
    /// # Errors
    /// When it is none of these.
    pub(crate) fn parse(text: &str, default_port: u16) -> Result<Self> {
        let accepted =
            "a host must be NAME, NAME:PORT, [IPV6] or [IPV6]:PORT with a port from 1 to 65535";
        let wrong = || Error::config("host", accepted);
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, rest) = rest.split_once(']').ok_or_else(wrong)?;
                name.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
                match rest.strip_prefix(':') {
                    Some(port) => (name, Some(port)),
                    None if rest.is_empty() => (name, None),
                    None => return Err(wrong()),
                }
            }
            None => match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:".contains(&b);
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(wrong());
        }
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
            None => default_port,
        };
        Ok(Self::new(name, port))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_and_written_the_same() {
        let cases =
            [("a", "a:7"), ("a.b-c:1", "a.b-c:1"), ("[::1]", "[::1]:7"), ("[::1]:9", "[::1]:9")];
        for (text, shown) in cases {
            assert_eq!(Host::parse(text, 7).unwrap().to_string(), shown);
        }
        for text in ["", ":1", "a:0", "a:65536", "a:x", "[::1", "[a]:1", "[::1]x", "a b", "a:1:2"] {
            let error = Host::parse(text, 7).unwrap_err();
            assert_eq!(error.field(), Some("host"), "{text}");
        }
    }
}
