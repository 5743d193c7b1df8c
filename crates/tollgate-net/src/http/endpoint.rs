//! The endpoint of a URL, and the request as hyper sends it.

use core::fmt;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::http::uri::{PathAndQuery, Scheme};
use hyper::{Method, Uri};
use tollgate_core::{Error, Result};

/// A request.
pub(super) type Message = hyper::Request<Full<Bytes>>;

const AGENT: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"));

/// The target of requests. Endpoints of one host share connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_encrypted: bool,
    path: PathAndQuery,
    authority: String,
}

/// A POST request with a bearer token.
pub struct Post<'a> {
    /// The text after `Bearer ` in the header `Authorization`. A secret.
    pub token: &'a str,
    /// The media type of the body.
    pub content_type: &'static str,
    /// Additional headers.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// The body.
    pub body: Vec<u8>,
}

/// Omits the token and the body, which contains keys.
impl fmt::Debug for Post<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").field("content_type", &self.content_type).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// The endpoint of a URL, if its scheme is `http` or `https`.
    #[must_use]
    pub fn of(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let is_encrypted = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return None,
        };
        let authority = uri.authority()?;
        // `Authority::port` ignores an invalid port. User names and passwords are not accepted.
        let port = match authority.as_str().strip_prefix(authority.host())? {
            "" if is_encrypted => 443,
            "" => 80,
            port => port.strip_prefix(':')?.parse().ok().filter(|port| *port > 0)?,
        };
        // The brackets around an IPv6 address are not part of the host.
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Some(Self {
            host,
            port,
            is_encrypted,
            path: uri.path_and_query().cloned()?,
            authority: authority.as_str().to_owned(),
        })
    }

    /// Whether both endpoints share connections.
    pub(super) fn shares_connections(&self, other: &Self) -> bool {
        self.authority == other.authority && self.is_encrypted == other.is_encrypted
    }

    /// Whether requests to it are encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The request for this endpoint.
    ///
    /// # Errors
    /// When the token is not a valid header value.
    pub(super) fn message(&self, post: Post<'_>) -> Result<Message> {
        let accepted = "is not accepted; accepted: visible ASCII characters";
        let bearer = HeaderValue::try_from(format!("Bearer {}", post.token));
        let mut bearer = bearer.map_err(|_| Error::config("token", accepted).not_sent())?;
        bearer.set_sensitive(true);
        let message = hyper::Request::builder()
            .method(Method::POST)
            .uri(Uri::from(self.path.clone()))
            .header(HOST, &self.authority)
            .header(USER_AGENT, AGENT)
            .header(AUTHORIZATION, bearer)
            .header(CONTENT_TYPE, post.content_type)
            .body(Full::new(Bytes::from(post.body)));
        let invalid =
            |_| Error::config("url", "has a host that is not a valid header value").not_sent();
        let mut message = message.map_err(invalid)?;
        message.headers_mut().extend(post.headers.iter().cloned());
        Ok(message)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_or_refused() {
        let at = |url| Endpoint::of(url).map(|it| (it.host, it.port, it.is_encrypted));
        assert_eq!(at("http://h"), Some(("h".to_owned(), 80, false)));
        assert_eq!(at("https://h/path"), Some(("h".to_owned(), 443, true)));
        assert_eq!(at("https://[::1]:7/"), Some(("::1".to_owned(), 7, true)));
        for url in [
            "",
            "h",
            "/path",
            "ftp://h",
            "http://",
            "http://h:x",
            "http://h:99999",
            "http://h:0",
            "http://a b",
            "http://a:b@h",
        ] {
            assert_eq!(at(url), None, "{url}");
        }
    }

    #[test]
    fn connections_are_shared_by_host_but_not_between_http_and_https() {
        let shared = |one: &str, other: &str| {
            Endpoint::of(one).unwrap().shares_connections(&Endpoint::of(other).unwrap())
        };
        assert!(shared("http://h/a", "http://h/b"));
        assert!(!shared("http://h:80", "https://h:80"));
        assert!(!shared("http://h:1", "http://h:2"));
    }

    #[test]
    fn only_the_header_contains_the_token() {
        let post =
            |token| Post { token, content_type: "text/plain", headers: &[], body: Vec::new() };
        let endpoint = Endpoint::of("http://h/path?query").unwrap();
        let message = endpoint.message(post("s3cret")).unwrap();
        assert_eq!(message.headers()[AUTHORIZATION], "Bearer s3cret");
        assert_eq!(
            (message.uri().to_string(), &message.headers()[HOST]),
            ("/path?query".into(), &HeaderValue::from_static("h"))
        );
        let error = endpoint.message(post("s3cret\n")).unwrap_err();
        let shown = format!("{:?} {message:?} {error}", post("s3cret"));
        assert!(
            error.is_not_sent() && error.field() == Some("token") && !shown.contains("s3cret"),
            "{shown}"
        );
    }
}
