//! Where a URL leads, and the request as hyper sends it.

use core::fmt;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::{Method, Uri};
use tollgate_core::{Error, Result};

use crate::upstash::Request;

/// A request as it goes out.
pub(super) type Message = hyper::Request<Full<Bytes>>;

/// A host, and how to speak to it. Connections to equal ones are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_encrypted: bool,
    path: PathAndQuery,
    authority: String,
}

impl Endpoint {
    /// Reads a URL.
    ///
    /// # Errors
    /// When it is no URL, or of another scheme.
    pub(super) fn of(url: &str) -> Result<Self> {
        let wrong = || Error::config("url", "is not a URL; accepted: https://host").unsent();
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let is_encrypted = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        // An IPv6 address stands in brackets, which are no part of it.
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self {
            host,
            port: authority.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 }),
            is_encrypted,
            path: uri.path_and_query().cloned().ok_or_else(wrong)?,
            authority: authority.as_str().to_owned(),
        })
    }

    /// The request for this endpoint.
    ///
    /// # Errors
    /// When the token cannot be a header.
    pub(super) fn message(&self, request: Request<'_>) -> Result<Message> {
        let accepted = "is not accepted; accepted: visible ASCII characters";
        let bearer = HeaderValue::try_from(format!("Bearer {}", request.token));
        let mut bearer = bearer.map_err(|_| Error::config("token", accepted).unsent())?;
        bearer.set_sensitive(true);
        let message = hyper::Request::builder()
            .method(Method::POST)
            .uri(Uri::from(self.path.clone()))
            .header(HOST, &self.authority)
            .header(AUTHORIZATION, bearer)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(request.body)));
        message.map_err(|_| Error::config("url", "cannot be the host of a request").unsent())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}
