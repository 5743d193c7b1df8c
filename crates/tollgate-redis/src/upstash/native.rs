//! An HTTP client for servers: connections over TCP and TLS that are kept, on tokio.

use std::path::Path;
use std::time::Duration;

use tollgate_core::store::CallLimit;
use tollgate_core::{BoxFuture, Error, Result};
use tollgate_net::http::{Endpoint, Pool, Post};
use tollgate_net::tls::{Tls, TlsFiles};

use super::{Http, Request, Response, Upstash};
use crate::transport::Spawner;

const URL: &str = "UPSTASH_REDIS_REST_URL";
const TOKEN: &str = "UPSTASH_REDIS_REST_TOKEN";

/// An HTTP client for tokio. It verifies certificates; there is no way to switch that off.
#[derive(Debug)]
pub struct NativeHttp {
    pool: Pool,
}

impl NativeHttp {
    /// Trusts the authorities of the operating system; 200 ms to connect, 1 s for a response.
    ///
    /// # Errors
    /// When the operating system has no certificate authority.
    pub fn new() -> Result<Self> {
        Self::with_files(&TlsFiles::default())
    }

    /// Trusts the authorities in a file in PEM form instead.
    ///
    /// # Errors
    /// When the file cannot be read or holds no certificate.
    pub fn trusting(file: &Path) -> Result<Self> {
        let ca = file.to_str().ok_or_else(|| Error::config("ca", "the path is not UTF-8"))?;
        Self::with_files(&TlsFiles { ca: Some(ca.to_owned()), ..TlsFiles::default() })
    }

    fn with_files(files: &TlsFiles) -> Result<Self> {
        Ok(Self { pool: Pool::new(Some(Tls::new(files)?)) })
    }

    /// How long it may take to connect, TLS included.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.pool = self.pool.connect_timeout(limit);
        self
    }

    /// How long a response may take. One that takes longer costs its connection.
    #[must_use]
    pub fn reply_timeout(mut self, limit: Duration) -> Self {
        self.pool = self.pool.reply_timeout(limit);
        self
    }
}

impl Http for NativeHttp {
    async fn post(&self, request: Request<'_>) -> Result<Response> {
        let wrong = || Error::config("url", "is not a URL; accepted: https://host").not_sent();
        let endpoint = Endpoint::of(request.url).ok_or_else(wrong)?;
        let Request { token, body, cx, .. } = request;
        let post = Post { token, content_type: "application/json", headers: &[], body };
        let response = self.pool.post(&endpoint, post, cx).await?;
        Ok(Response { status: response.status, body: response.body })
    }

    fn call_limit(&self) -> Option<&CallLimit> {
        Some(self.pool.call_limit())
    }

    fn spawner(&self) -> Option<Spawner> {
        tokio::runtime::Handle::try_current().ok().map(|_| spawn as Spawner)
    }
}

fn spawn(work: BoxFuture<'static, ()>) {
    drop(tokio::spawn(work));
}

impl Upstash<NativeHttp> {
    /// A database at a URL, over [`NativeHttp`] as it comes.
    ///
    /// # Errors
    /// When the URL or the token is not accepted, or the operating system has no certificate
    /// authority.
    pub fn open(url: &str, token: &str) -> Result<Self> {
        Self::over(NativeHttp::new()?, url, token)
    }

    /// The same, with the URL and the token from the environment: `UPSTASH_REDIS_REST_URL` and
    /// `UPSTASH_REDIS_REST_TOKEN`.
    ///
    /// # Errors
    /// When one of them is missing or not accepted.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(look: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let read = |field, name: &str| {
            look(name)
                .ok_or_else(|| Error::config(field, format!("{name} is not set, or is not text")))
        };
        Self::open(&read("url", URL)?, &read("token", TOKEN)?)
    }
}

/// The guide, whose example must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/redis-upstash.md")]
struct Guide;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_what_is_missing() {
        let field = |set: &[(&str, &str)]| {
            let look = |name: &str| {
                let found = set.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            Upstash::from_variables(look).err().and_then(|error| error.field().map(str::to_owned))
        };
        assert_eq!(field(&[]), Some("url".to_owned()));
        assert_eq!(field(&[(URL, "https://db.example")]), Some("token".to_owned()));
        assert_eq!(field(&[(TOKEN, "secret")]), Some("url".to_owned()));
        assert_eq!(field(&[(URL, "db.example"), (TOKEN, "secret")]), Some("url".to_owned()));
    }
}
