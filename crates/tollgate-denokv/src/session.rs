//! Where requests go, and the token they carry: exchanged once, and again before it ends or when it is
//! refused.
//!
//! It is a lease: exchanged in the background and shared by all callers, however little time they have.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;

use tollgate_core::{Code, Error, Micros, Result};
use tollgate_net::http::{Endpoint, HeaderName, HeaderValue, Pool, Post, Response};
use tollgate_net::lease::Lease;
use tollgate_net::tls::{Tls, TlsFiles};

use crate::config::Config;
use crate::metadata::{Metadata, REQUEST};
use crate::url::resolve;

const REDIRECTS_MAX: usize = 5;
const VERSION: HeaderName = HeaderName::from_static("x-denokv-version");
const DATABASE: HeaderName = HeaderName::from_static("x-denokv-database-id");

/// What one exchange came to.
pub(crate) struct Session {
    pub(crate) read: Endpoint,
    pub(crate) write: Endpoint,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) token: String,
    pub(crate) version: u64,
    /// Whether a request was accepted with it.
    has_worked: AtomicBool,
}

impl Session {
    /// A request was accepted.
    pub(crate) fn worked(&self) {
        // Hardly ever written: everybody reads it.
        if !self.has_worked.load(Relaxed) {
            self.has_worked.store(true, Relaxed);
        }
    }
}

/// The exchange, and what it came to last.
pub(crate) struct Sessions {
    pub(crate) pool: Pool,
    url: String,
    token: String,
    lease: Arc<Lease<Session>>,
}

impl Sessions {
    /// # Errors
    /// `config_invalid` naming `token`, `url` or `ca`.
    pub(crate) fn new(config: &Config) -> Result<Arc<Self>> {
        let address = &config.address;
        let token = address.token.clone().ok_or_else(|| {
            Error::config("token", "is missing; accepted: in the address, or given beside it")
        })?;
        let tls = Tls::new(&TlsFiles { ca: address.ca.clone(), ..TlsFiles::default() });
        let tls = match (endpoint(&address.url)?.is_encrypted(), &address.ca) {
            // It may yet lead to one that is.
            (false, None) => tls.ok(),
            _ => Some(tls?),
        };
        let pool = Pool::new(tls).connect_timeout(config.connect_timeout);
        Ok(Arc::new(Self {
            pool: pool.reply_timeout(config.operation_timeout),
            url: address.url.clone(),
            token,
            lease: Lease::new(Arc::clone(&config.clock)),
        }))
    }

    /// The session to use now.
    ///
    /// # Errors
    /// Marked as unsent: nothing was charged.
    pub(crate) async fn current(self: &Arc<Self>) -> Result<Arc<Session>> {
        let exchange = || {
            let sessions = Arc::clone(self);
            async move { sessions.exchange().await }
        };
        self.lease.current(exchange).await
    }

    /// Forgets a session that the server did not accept, unless there is a newer one already.
    pub(crate) fn forget(&self, refused: &Arc<Session>) {
        self.lease.forget(refused, refused.has_worked.load(Relaxed));
    }

    /// Looks for another endpoint, now and then: this one cannot do what it was asked.
    pub(crate) fn look_elsewhere(&self, session: &Arc<Session>) {
        self.lease.forget(session, false);
    }

    /// The metadata exchange, wherever it is redirected to, and when what it came to ends.
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
            let response = self.pool.post(&endpoint, post).await?;
            match (response.status, &response.location) {
                (200, _) => return self.session(&Metadata::read(&url, &response.body)?),
                (300..=399, Some(location)) => url = resolve(&url, location),
                _ => return Err(refusal(&response)),
            }
        }
        Err(Error::config("url", "is redirected again and again"))
    }

    fn session(&self, metadata: &Metadata) -> Result<(Session, Micros)> {
        let of = |call: &str| self.checked(&format!("{}/{call}", metadata.endpoint));
        let wrong = |_| Error::new(Code::StoreUnavailable, "the id of the database is no header");
        let database = HeaderValue::try_from(metadata.database.as_str()).map_err(wrong)?;
        let session = Session {
            read: of("snapshot_read")?,
            write: of("atomic_write")?,
            headers: vec![(VERSION, HeaderValue::from(metadata.version)), (DATABASE, database)],
            token: metadata.token.clone(),
            version: metadata.version,
            has_worked: AtomicBool::new(false),
        };
        Ok((session, metadata.expires))
    }

    /// Where a URL leads; never from an encrypted place to one that is not, which would show the token.
    fn checked(&self, url: &str) -> Result<Endpoint> {
        let endpoint = endpoint(url)?;
        if self.url.starts_with("https://") && !endpoint.is_encrypted() {
            let message = "leads from https to http, which would show the token";
            return Err(Error::config("url", message));
        }
        Ok(endpoint)
    }
}

fn endpoint(url: &str) -> Result<Endpoint> {
    let wrong = || Error::config("url", "is not a URL; accepted: denokv+https://host").not_sent();
    Endpoint::of(url).ok_or_else(wrong)
}

/// What a status other than success means. Below 500 the server has refused and done nothing.
pub(crate) fn refusal(response: &Response) -> Error {
    let status = response.status;
    match status {
        401 | 403 => {
            let message = format!("was refused by the Deno KV server (status {status})");
            Error::config("token", message).not_sent()
        }
        429 => {
            // Not an outage: whoever sends enough requests can cause it.
            let message = "the Deno KV server takes no more requests now (status 429)";
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

/// Without tokens.
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
            let error = refusal(&Response { status, location: None, body: Vec::new() });
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
