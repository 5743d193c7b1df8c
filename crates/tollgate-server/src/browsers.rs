//! Requests that pages of other sites make a browser send.
//!
//! A browser on this machine reaches a loopback listener on behalf of any page. A page cannot send
//! a token that it does not have; where none is needed, requests are refused that a browser marks
//! as sent by a page of another origin. A page whose own name was made to resolve to this machine
//! is of the same origin: there its `Host` gives it away.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Uri, Version};
use tollgate::{Code, Error, Result};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

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
    fn check(&self, host: Option<&Authority>) -> Result<()> {
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

/// Refuses a request without a token that a page of another origin has sent.
///
/// # Errors
/// `forbidden`.
pub(crate) fn check(hosts: &Hosts, host: Option<&Authority>, headers: &HeaderMap) -> Result<()> {
    hosts.check(host)?;
    let foreign = |field: &'static str| {
        let message = "is that of a page of another site; such a request needs a token";
        Err(Error::new(Code::Forbidden, message).with_field(field))
    };
    let crosses = |value: &[u8]| matches!(value, b"cross-site" | b"same-site");
    if headers.get_all(SEC_FETCH_SITE).iter().any(|site| crosses(site.as_bytes())) {
        return foreign("sec-fetch-site");
    }
    let is_own = |origin: &[u8]| {
        let origin = std::str::from_utf8(origin).ok().and_then(|text| text.parse::<Uri>().ok());
        origin.is_some_and(|origin| origin.authority().is_some() && origin.authority() == host)
    };
    if headers.get_all(ORIGIN).iter().any(|origin| !is_own(origin.as_bytes())) {
        return foreign("origin");
    }
    Ok(())
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
