//! How a request gets out: the one thing that differs between a server and a Worker.

use core::fmt;
use core::future::Future;

use tollgate_core::store::{CallContext, CallLimit};
use tollgate_core::{MaybeSend, MaybeSync, Result};

use crate::transport::Spawner;

/// Sends HTTP requests: an HTTP client, or the `fetch` of a Worker.
pub trait Http: MaybeSend + MaybeSync + 'static {
    /// Sends a POST and waits for the response, whatever its status.
    ///
    /// An `Err` means that there is none: it must be marked as
    /// [`not_sent`](tollgate_core::Error::not_sent) if the request certainly did not reach the
    /// server. A request is never sent twice, unless the first certainly did not get there; that
    /// includes redirections.
    fn post(&self, request: Request<'_>) -> impl Future<Output = Result<Response>> + MaybeSend;

    /// The bound on requests at once, if there is one. A client with a bound records
    /// [`sent`](CallContext::sent) in the context of the request before the request can leave the
    /// process; for others this is recorded before they are called.
    fn call_limit(&self) -> Option<&CallLimit> {
        None
    }

    /// Runs work that must not end with the caller that began it, as a transport's
    /// [`spawner`](crate::transport::Transport::spawner) does.
    fn spawner(&self) -> Option<Spawner> {
        None
    }
}

/// A request: a POST of JSON, with a bearer token.
#[derive(Clone)]
#[non_exhaustive]
pub struct Request<'a> {
    /// Where to.
    pub url: &'a str,
    /// What follows `Bearer ` in the header `Authorization`. A secret.
    pub token: &'a str,
    /// The body, of type `application/json`.
    pub body: Vec<u8>,
    /// Where it is recorded that the request was sent.
    pub cx: CallContext<'a>,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The body holds keys.
        f.debug_struct("Request").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status, such as 200.
    pub status: u16,
    /// The whole body.
    pub body: Vec<u8>,
}
