//! The session with a database: its endpoints and the token of the data path, from the metadata
//! exchange. The exchange is repeated before the token expires and when it is refused, in the
//! background and once for all callers.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

use tollgate_core::store::CallContext;
use tollgate_core::{Code, Error, Micros, Result};
use tollgate_net::http::{Endpoint, HeaderName, HeaderValue, Pool, Post, Response};
use tollgate_net::refreshing_credential::RefreshingCredential;
use tollgate_net::tls::{Tls, TlsFiles};

use crate::config::Config;
use crate::metadata::{Metadata, REQUEST};
use crate::url::resolve;

const REDIRECTS_MAX: usize = 5;
const VERSION: HeaderName = HeaderName::from_static("x-denokv-version");
const DATABASE: HeaderName = HeaderName::from_static("x-denokv-database-id");

/// The result of one exchange.
pub(crate) struct Session {
    pub(crate) read: Endpoint,
    pub(crate) write: Endpoint,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) token: String,
    pub(crate) version: u64,
    /// Whether the server has accepted a request with this token.
    was_accepted: AtomicBool,
}

impl Session {
    /// The server has accepted a request with this token.
    pub(crate) fn accepted(&self) {
        // Stored once: all callers share the cache line.
        if !self.was_accepted.load(Relaxed) {
            self.was_accepted.store(true, Relaxed);
        }
    }
}

/// The exchange, and its last result.
pub(crate) struct Sessions {
    pub(crate) pool: Pool,
    url: String,
    token: String,
    session: Arc<RefreshingCredential<Session>>,
}

impl Sessions {
    /// # Errors
    /// `config_invalid` naming `token`, `url` or `ca`.
    pub(crate) fn new(config: Config) -> Result<Arc<Self>> {
        let address = config.address;
        let token = address.token.ok_or_else(|| {
            Error::config(
                "token",
                "is missing; accepted: in the URL, `Config::token`, or DENO_KV_ACCESS_TOKEN",
            )
        })?;
        let tls = Tls::new(&TlsFiles { ca: address.ca.clone(), ..TlsFiles::default() });
        let tls = match (endpoint(&address.url)?.is_encrypted(), &address.ca) {
            // A redirect may lead to an encrypted endpoint.
            (false, None) => tls.ok(),
            _ => Some(tls?),
        };
        let pool = Pool::new(tls).connect_timeout(config.connect_timeout);
        Ok(Arc::new(Self {
            pool: pool.reply_timeout(config.operation_timeout),
            url: address.url,
            token,
            session: RefreshingCredential::new(config.clock),
        }))
    }

    /// The current session.
    ///
    /// # Errors
    /// Marked as not sent: nothing was charged.
    pub(crate) async fn current(self: &Arc<Self>) -> Result<Arc<Session>> {
        let exchange = || {
            let sessions = Arc::clone(self);
            async move { sessions.exchange().await }
        };
        self.session.current(exchange).await
    }

    /// Sends a request. The round that it is for has recorded its facts.
    pub(crate) async fn post(&self, endpoint: &Endpoint, post: Post<'_>) -> Result<Response> {
        self.pool.post(endpoint, post, CallContext::store_clock()).await
    }

    /// Discards a session whose token was refused, unless there is a newer one.
    pub(crate) fn discard(&self, refused: &Arc<Session>) {
        self.session.discard(refused, refused.was_accepted.load(Relaxed));
    }

    /// Discards a session whose endpoint cannot serve a request; not too often.
    pub(crate) fn discard_endpoint(&self, session: &Arc<Session>) {
        self.session.discard(session, false);
    }

    /// The metadata exchange, which follows redirects. Returns the session and its expiry.
    async fn exchange(&self) -> Result<(Session, Micros)> {
        let mut url = self.url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let endpoint = self.checked(&url)?;
            let post = Post {
                token: &self.token,
                content_type: "application/json",
                headers: &[],
                body: REQUEST.into(),
            };
            let response = self.post(&endpoint, post).await?;
            match (response.status, &response.location) {
                (200, _) => return self.session_of(&Metadata::parse(&url, &response.body)?),
                (300..=399, Some(location)) => url = resolve(&url, location),
                _ => return Err(status_error(&response)),
            }
        }
        Err(Error::config("url", "is redirected too often"))
    }

    fn session_of(&self, metadata: &Metadata) -> Result<(Session, Micros)> {
        let of = |call: &str| self.checked(&format!("{}/{call}", metadata.endpoint));
        let invalid =
            |_| Error::new(Code::StoreUnavailable, "the database id is not a valid header value");
        let database = HeaderValue::try_from(metadata.database.as_str()).map_err(invalid)?;
        let session = Session {
            read: of("snapshot_read")?,
            write: of("atomic_write")?,
            headers: vec![(VERSION, HeaderValue::from(metadata.version)), (DATABASE, database)],
            token: metadata.token.clone(),
            version: metadata.version,
            was_accepted: AtomicBool::new(false),
        };
        Ok((session, metadata.expires))
    }

    /// The endpoint of a URL. A redirect from https to http is refused: it would expose the token.
    fn checked(&self, url: &str) -> Result<Endpoint> {
        let endpoint = endpoint(url)?;
        if self.url.starts_with("https://") && !endpoint.is_encrypted() {
            let message = "redirects from https to http, which would expose the token";
            return Err(Error::config("url", message));
        }
        Ok(endpoint)
    }
}

fn endpoint(url: &str) -> Result<Endpoint> {
    let invalid = || Error::config("url", "is not a URL; accepted: denokv+https://host").not_sent();
    Endpoint::of(url).ok_or_else(invalid)
}

/// The error of a status other than 200. Below 500 the server has done nothing.
pub(crate) fn status_error(response: &Response) -> Error {
    let status = response.status;
    match status {
        401 | 403 => {
            let message = format!("was refused by the Deno KV server (status {status})");
            Error::config("token", message).not_sent()
        }
        429 => {
            // Not an outage: an attacker can cause it by sending many requests.
            let message = "the Deno KV server limits requests (status 429)";
            Error::new(Code::QueueFull, message).not_sent()
        }
        500.. => {
            let message = format!("the Deno KV server failed (status {status})");
            Error::new(Code::StoreUnavailable, message)
        }
        _ => {
            let message = format!("the Deno KV server refused the request (status {status})");
            Error::new(Code::ConfigInvalid, message).not_sent()
        }
    }
}

/// Omits tokens.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("pool", &self.pool).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_cannot_answer_is_an_outage() {
        let of = |status| {
            let error = status_error(&Response { status, location: None, body: Vec::new() });
            (error.is_outage(), error.is_not_sent())
        };
        for status in [500, 502, 503, 504] {
            assert_eq!(of(status), (true, false), "{status}");
        }
        for status in [204, 301, 400, 401, 403, 404, 413, 429] {
            assert_eq!(of(status), (false, true), "{status}");
        }
    }
}
