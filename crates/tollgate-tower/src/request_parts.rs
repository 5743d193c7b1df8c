//! A request without its body: all that a limit may depend on.

use core::fmt;

use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Uri, header};

/// A request without its body, borrowed.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct RequestParts<'a> {
    /// The method.
    pub method: &'a Method,
    /// The target of the request.
    pub uri: &'a Uri,
    /// The headers, as the client and its proxies sent them.
    pub headers: &'a HeaderMap,
    /// What the server and outer layers added: the peer, the matched route, the user.
    pub extensions: &'a Extensions,
}

impl<'a> RequestParts<'a> {
    /// The parts of a request.
    #[must_use]
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// Whether the request is a gRPC call, by its content type. gRPC-Web is not: it encodes
    /// statuses in bodies, so it gets an HTTP status instead.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        let kind = self.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
    }
}

/// Method and path only, because headers may hold secrets.
impl fmt::Debug for RequestParts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = f.debug_struct("RequestParts");
        parts.field("method", self.method).field("path", &self.uri.path()).finish_non_exhaustive()
    }
}
