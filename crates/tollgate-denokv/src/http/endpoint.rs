//! Where a URL leads, and the request as hyper sends it.

use core::fmt;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::{Method, Uri};
use tollgate_core::{Error, Result};

/// A request as it goes out.
pub(super) type Message = hyper::Request<Full<Bytes>>;

const AGENT: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"));

/// A place to send requests to. Connections to equal hosts are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_encrypted: bool,
    path: PathAndQuery,
    authority: String,
}

/// What is sent.
pub(crate) struct Post<'a> {
    pub(crate) token: &'a str,
    pub(crate) content_type: &'static str,
    pub(crate) headers: &'a [(HeaderName, HeaderValue)],
    pub(crate) body: Vec<u8>,
}

impl Endpoint {
    /// Reads a URL.
    ///
    /// # Errors
    /// When it is no URL, or of another scheme.
    pub(crate) fn of(url: &str) -> Result<Self> {
        let wrong = || Error::config("url", "is not a URL; accepted: denokv+https://host").unsent();
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

    /// Whether connections to one lead to the other.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        self.authority == other.authority && self.is_encrypted == other.is_encrypted
    }

    /// Whether requests to it are encrypted.
    pub(crate) const fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The request for this endpoint.
    ///
    /// # Errors
    /// When the token cannot be a header.
    pub(super) fn message(&self, post: Post<'_>) -> Result<Message> {
        let accepted = "is not accepted; accepted: visible ASCII characters";
        let bearer = HeaderValue::try_from(format!("Bearer {}", post.token));
        let mut bearer = bearer.map_err(|_| Error::config("token", accepted).unsent())?;
        bearer.set_sensitive(true);
        let message = hyper::Request::builder()
            .method(Method::POST)
            .uri(Uri::from(self.path.clone()))
            .header(HOST, &self.authority)
            .header(USER_AGENT, AGENT)
            .header(AUTHORIZATION, bearer)
            .header(CONTENT_TYPE, post.content_type)
            .body(Full::new(Bytes::from(post.body)));
        let wrong = |_| Error::config("url", "cannot be the host of a request").unsent();
        let mut message = message.map_err(wrong)?;
        message.headers_mut().extend(post.headers.iter().cloned());
        Ok(message)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}
