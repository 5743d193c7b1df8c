//! What is known of a request before its body is read: all that a limit may look at.

use core::fmt;

use http::{Extensions, HeaderMap, Method, Request, Uri, header};

/// A request without its body.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The address that was asked for.
    pub uri: &'a Uri,
    /// The headers, as the client and its proxies sent them.
    pub headers: &'a HeaderMap,
    /// What the server and outer layers know: the peer, the matched route, the user.
    pub extensions: &'a Extensions,
}

impl<'a> Head<'a> {
    /// The head of a request.
    #[must_use]
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// Whether the request is a gRPC call, by its content type.
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        let kind = self.headers.get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
        // gRPC-Web has a body format of its own for the status: it gets an HTTP status instead.
        let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
    }
}

/// Method and path only: headers may hold secrets.
impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut head = f.debug_struct("Head");
        head.field("method", self.method).field("path", &self.uri.path()).finish_non_exhaustive()
    }
}
