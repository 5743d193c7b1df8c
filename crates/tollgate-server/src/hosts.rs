//! The names by which clients reach a listener.
//!
//! A browser on this machine reaches a loopback listener on behalf of any page. The service
//! refuses requests that a browser marks as sent by a page of another origin. A page whose own
//! name was made to resolve to this machine is of the same origin: it is refused by the `Host`
//! that it names.

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
    pub(crate) fn check(&self, host: Option<&Authority>) -> Result<()> {
        let (Self::Loopback(names), Some(host)) = (self, host) else { return Ok(()) };
        let host = host.host();
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

/// The host of a request: that of its target, or else of its `Host`.
///
/// # Errors
/// `invalid_request` when `Host` is missing, repeated or no host.
pub(crate) fn host_of(
    uri: &Uri,
    version: Version,
    headers: &HeaderMap,
) -> Result<Option<Authority>> {
    let invalid = |message| Err(Error::invalid("host", message));
    let mut values = headers.get_all(HOST).iter();
    let written = match (values.next(), values.next()) {
        (_, Some(_)) => return invalid("appears twice; accepted: once"),
        (None, None) if version == Version::HTTP_11 => return invalid("is missing"),
        (None, None) => None,
        (Some(value), None) => match Authority::try_from(value.as_bytes()) {
            Ok(host) => Some(host),
            Err(_) => return invalid("is no host; accepted: a name or an address, and a port"),
        },
    };
    Ok(uri.authority().cloned().or(written))
}
