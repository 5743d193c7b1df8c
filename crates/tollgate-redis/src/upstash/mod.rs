//! Upstash: Redis over HTTPS, for programs that cannot hold a connection open.
//!
//! Calls go out as one `POST /pipeline`, with a bearer token; `json` writes and reads them,
//! `status` says what a refusal means. How a request gets out is the business of an [`Http`]:
//! `native` is one over TCP and TLS, a Worker brings its `fetch`.
//!
//! A call whose outcome is unknown is never sent again, as everywhere.

mod http;
mod json;
#[cfg(feature = "upstash-native")]
mod native;
mod status;
#[cfg(test)]
mod tests;

use core::fmt;

use tollgate_core::store::{CallContext, CallLimit};
use tollgate_core::{Error, MaybeSend, Result};

use crate::transport::{Call, Reply, Spawner, Transport};

pub use http::{Http, Request, Response};
#[cfg(feature = "upstash-native")]
pub use native::NativeHttp;

/// A database at Upstash, or anything else with its REST interface.
///
/// ```no_run
/// # #[cfg(feature = "upstash-native")]
/// # async fn example() -> tollgate_core::Result<()> {
/// use tollgate_core::{Limit, Limiter, Quota};
/// use tollgate_redis::Redis;
/// use tollgate_redis::upstash::Upstash;
///
/// // UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN.
/// let limiter = Limiter::new(Redis::over(Upstash::from_env()?));
/// let logins = Limit::gcra("logins", Quota::per_minute(5))?;
/// let decision = limiter.check(logins.charge("ada")).await?;
/// # Ok(())
/// # }
/// ```
pub struct Upstash<H> {
    http: H,
    /// Of the one path that is used.
    url: String,
    token: String,
}

impl<H: Http> Upstash<H> {
    /// A database at a URL, with its token. Both are shown by the console of Upstash.
    ///
    /// The URL is `https://host` or `https://host/path`. `http://` sends the token unencrypted, for
    /// servers on the same machine or network.
    ///
    /// # Errors
    /// When the URL or the token is not accepted.
    pub fn over(http: H, url: &str, token: &str) -> Result<Self> {
        check_url(url)?;
        check_token(token)?;
        let url = format!("{}/pipeline", url.trim_end_matches('/'));
        Ok(Self { http, url, token: token.to_owned() })
    }

    /// What sends the requests.
    pub const fn http(&self) -> &H {
        &self.http
    }

    /// Sends one request, for calls whose callers have recorded that they are sent, unless `cx`
    /// says more.
    async fn exchange(&self, body: json::Body, cx: CallContext<'_>) -> Result<Vec<Result<Reply>>> {
        let request = Request { url: &self.url, token: &self.token, body: body.json, cx };
        let response = self.http.post(request).await?;
        match response.status {
            200 => json::replies_of(&response.body, body.calls),
            _ => Err(status::refusal(&response)),
        }
    }
}

impl<H: Http> Transport for Upstash<H> {
    async fn send(&self, call: &Call) -> Result<Reply> {
        self.send_recorded(call, CallContext::store_clock()).await
    }

    async fn send_recorded(&self, call: &Call, cx: CallContext<'_>) -> Result<Reply> {
        if self.http.call_limit().is_none() {
            cx.sent();
        }
        let body = json::bodies_of(core::slice::from_ref(call)).pop().ok_or_else(skipped)?;
        self.exchange(body, cx).await?.pop().unwrap_or_else(|| Err(skipped()))
    }

    fn call_limit(&self) -> Option<&CallLimit> {
        self.http.call_limit()
    }

    async fn send_all(
        &self,
        calls: &[Call],
        mut replied: impl FnMut(usize, Result<Reply>) + MaybeSend,
    ) {
        let mut indices = 0..calls.len();
        for body in json::bodies_of(calls) {
            let count = body.calls;
            match self.exchange(body, CallContext::store_clock()).await {
                Ok(replies) => {
                    indices.by_ref().zip(replies).for_each(|(index, reply)| replied(index, reply));
                }
                Err(error) => {
                    indices
                        .by_ref()
                        .take(count)
                        .for_each(|index| replied(index, Err(error.clone())));
                    // The others would fail in the same way, one deadline after another.
                    break;
                }
            }
        }
        indices.for_each(|index| replied(index, Err(skipped())));
    }

    fn spawner(&self) -> Option<Spawner> {
        self.http.spawner()
    }
}

impl<H> fmt::Debug for Upstash<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstash").field("url", &self.url).field("token", &"***").finish()
    }
}

/// For calls that were not sent because one before them failed.
fn skipped() -> Error {
    let message = "not sent: a request before it failed";
    Error::new(tollgate_core::Code::StoreUnavailable, message).not_sent()
}

/// No parser of URLs is needed for what is accepted. The URL itself is not shown: a token may have
/// been put there.
fn check_url(url: &str) -> Result<()> {
    let wrong = |what: &str| Err(Error::config("url", format!("{what}; accepted: https://host")));
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return wrong("is neither https:// nor http://");
    };
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
        return wrong("holds a space or a character that is not ASCII");
    }
    if rest.contains(['@', '?', '#']) {
        return wrong("holds a user, a query or a fragment");
    }
    let host = rest.split('/').next().unwrap_or_default();
    if host.is_empty() || host.starts_with(':') { wrong("has no host") } else { Ok(()) }
}

fn check_token(token: &str) -> Result<()> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = "is empty or holds a space or a character that is not ASCII; accepted: the \
                       token as the console of Upstash shows it";
        return Err(Error::config("token", message));
    }
    Ok(())
}
