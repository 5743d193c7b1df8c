//! The names by which clients reach a listener.
//!
//! A browser on this machine reaches a loopback listener on behalf of any page. The service
//! refuses requests that a browser marks as sent by a page of another origin. A page whose own
//! name was made to resolve to this machine is of the same origin: it is refused by the `Host`
//! that it names.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, HeaderMap};
use hyper::http::uri::Authority;
use hyper::{Uri, Version};
use tollgate::{Code, Error, Result};

/// The names by which clients may reach a listener without tokens.
#[derive(Debug)]
pub(crate) enum Hosts {
    /// Any: a service has many names.
    Any,
    /// `localhost`, loopback addresses, and these.
    Loopback(Vec<String>),
}

impl Hosts {
    /// Of a listener at this address.
    pub(crate) fn of(address: Option<SocketAddr>, names: &[String]) -> Self {
        match address {
            Some(address) if address.ip().is_loopback() => Self::Loopback(names.to_vec()),
            _ => Self::Any,
        }
    }

    /// Refuses a request whose host is none of them.
    ///
    /// # Errors
    /// `forbidden`.
    pub(crate) fn check(&self, host: Option<&str>) -> Result<()> {
        let (Self::Loopback(names), Some(host)) = (self, host) else { return Ok(()) };
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let named = names.iter().any(|name| name.eq_ignore_ascii_case(host));
        if named
            || host.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|address| address.is_loopback())
        {
            return Ok(());
        }
        let accepted = "is foreign; accepted without a token: localhost, a loopback address, or a \
                        name of the setting hosts";
        Err(Error::new(Code::Forbidden, accepted).with_field("host"))
    }
}

/// The host of a request, without a port: that of its target, or else of its `Host`.
///
/// # Errors
/// `invalid_request` when `Host` is missing, repeated or no host.
pub(crate) fn host_of<'a>(
    uri: &'a Uri,
    version: Version,
    headers: &'a HeaderMap,
) -> Result<Option<Cow<'a, str>>> {
    let invalid = |message| Err(Error::invalid("host", message));
    let mut values = headers.get_all(HOST).iter();
    let written = match (values.next(), values.next()) {
        (_, Some(_)) => return invalid("appears twice; accepted: once"),
        (None, None) if version == Version::HTTP_11 => return invalid("is missing"),
        (None, None) => None,
        (Some(value), None) => match plain(value.as_bytes()) {
            Some(name) => Some(Cow::Borrowed(name)),
            None => match Authority::try_from(value.as_bytes()) {
                Ok(host) => Some(Cow::Owned(host.host().to_owned())),
                Err(_) => {
                    return invalid("is no host; accepted: a name or an address, and a port");
                }
            },
        },
    };
    Ok(uri.authority().map(|target| Cow::Borrowed(target.host())).or(written))
}

/// The name in a host as most clients write it: nothing that has to be parsed, and perhaps a port.
fn plain(host: &[u8]) -> Option<&str> {
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    let length = host.iter().position(|byte| !is_of_name(byte)).unwrap_or(host.len());
    let (name, port) = host.split_at_checked(length)?;
    let is_port = match port {
        [] => true,
        [b':', digits @ ..] => {
            (1..=5).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    };
    if is_port && !name.is_empty() { std::str::from_utf8(name).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_plain_host_is_read_as_any_other() {
        let hosts = [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:1",
            "a.b-c",
            "[::1]:80",
            "[::1]",
            "a:",
            ":80",
            "a:123456",
            "a:b",
            "a_b",
            "a@b",
            "-",
            ".",
            "a b",
            "",
            "a:1:2",
            "0",
            "é",
            "a/b",
            "a%20",
        ];
        let target = Uri::from_static("/");
        for host in hosts {
            let value = HeaderValue::from_bytes(host.as_bytes()).unwrap();
            let headers = HeaderMap::from_iter([(HOST, value)]);
            let read = host_of(&target, Version::HTTP_11, &headers);
            let parsed = Authority::try_from(host.as_bytes()).ok();
            let read = read.ok().map(Option::unwrap);
            assert_eq!(read.as_deref(), parsed.as_ref().map(Authority::host), "{host:?}");
        }
    }
}
