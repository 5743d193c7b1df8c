//! Limits the routes of a Worker: who is charged, the RateLimit fields, and problem documents.
//!
//! The fields, statuses and documents are those of the server and of the middleware
//! (`tollgate-http`).

use core::future::Future;
use std::net::IpAddr;

use http::{HeaderMap, Response as HttpResponse};
use tollgate_core::store::Store;
use tollgate_core::{Code, Decision, Error, Limit, Limiter};
use tollgate_http::{LimitFields, Problem, QuotaPolicy, RateLimitFields, Status};
use worker::{Headers, Request, Response};

use crate::limiter::limiter;

/// Which part of a request names the subject that is charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// The address of the client, as Cloudflare states it; of an IPv6 address the first 64 bits,
    /// because one client has all the others.
    #[default]
    ClientAddress,
    /// The value of a header, such as an API key. A request without it is refused with 400.
    Header(String),
    /// All requests share one limit.
    Global,
}

impl Subject {
    /// The subject of a request.
    ///
    /// # Errors
    /// `invalid_request` naming the header that is missing.
    pub fn of(&self, request: &Request) -> tollgate_core::Result<String> {
        let header = |name: &str| request.headers().get(name).ok().flatten();
        match self {
            Self::ClientAddress => {
                let address =
                    header("cf-connecting-ip").ok_or_else(|| missing("cf-connecting-ip"))?;
                Ok(network_of(&address))
            }
            Self::Header(name) => header(name).ok_or_else(|| missing(name)),
            Self::Global => Ok("all".to_owned()),
        }
    }
}

fn missing(header: &str) -> Error {
    Error::invalid(header.to_owned(), "is missing: the request has no subject to charge")
}

/// The address, or the network of an IPv6 address.
fn network_of(address: &str) -> String {
    match address.parse() {
        Ok(IpAddr::V6(address)) => match address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => {
                let [a, b, c, d, ..] = address.segments();
                format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
            }
        },
        Ok(IpAddr::V4(address)) => address.to_string(),
        Err(_) => address.to_owned(),
    }
}

/// A limit on requests of a Worker.
///
/// ```no_run
/// use tollgate_core::{Limit, Quota};
/// use tollgate_worker::DurableObjects;
/// use tollgate_worker::guard::Guard;
/// use worker::{Env, Request, Response, Result};
///
/// # async fn example(request: Request, env: Env) -> Result<Response> {
/// let limit = Limit::gcra("hello", Quota::per_minute(60)).map_err(|e| e.to_string())?;
/// let guard = Guard::new(DurableObjects::new(env.durable_object("LIMITS")?), limit);
/// guard.run(request, |_| async { Response::ok("hello") }).await
/// # }
/// ```
#[derive(Debug)]
pub struct Guard<S> {
    limiter: Limiter<S>,
    limit: Limit,
    subject: Subject,
}

impl<S: Store> Guard<S> {
    /// Limits each client address.
    pub fn new(store: S, limit: Limit) -> Self {
        Self::of(limiter(store).build(), limit)
    }

    /// The same with a limiter of your own, for another deadline: see
    /// [`limiter`](crate::limiter()).
    pub fn of(limiter: Limiter<S>, limit: Limit) -> Self {
        Self { limiter, limit, subject: Subject::default() }
    }

    /// Charges another subject.
    #[must_use]
    pub fn subject(mut self, subject: Subject) -> Self {
        self.subject = subject;
        self
    }

    /// Runs `respond` if the limit allows the request, and adds the RateLimit fields to its
    /// response; else responds with a problem document.
    ///
    /// # Errors
    /// Those of `respond`.
    pub async fn run<F: Future<Output = worker::Result<Response>>>(
        &self,
        request: Request,
        respond: impl FnOnce(Request) -> F,
    ) -> worker::Result<Response> {
        let checked = match self.subject.of(&request) {
            Ok(subject) => self.limiter.check(self.limit.charge(&subject)).await,
            Err(error) => Err(error),
        };
        let mut fields = HeaderMap::new();
        let refusal = match checked {
            Ok(decision) => {
                self.write_fields(&decision, &mut fields);
                let violated = [self.limit.policy().as_str()];
                let refused = || Problem::denied(&decision, &violated).to_http();
                (!decision.is_allowed()).then(refused)
            }
            Err(error) => Some(undecided(&error)),
        };
        let response = match refusal {
            None => respond(request).await?,
            Some(refusal) => to_worker(refusal.map(String::into_bytes))?,
        };
        add(response, &fields)
    }

    fn write_fields(&self, decision: &Decision, headers: &mut HeaderMap) {
        let policy = QuotaPolicy::from(&self.limit);
        let now_ms = self.limiter.clock().now().div_ceil(1_000);
        let state = LimitFields::new(policy, decision, now_ms);
        RateLimitFields::draft_11(&[policy]).write(&[state], headers);
    }
}

/// Messages about the inside of a service are not for its clients.
fn undecided(error: &Error) -> HttpResponse<String> {
    let code: Code = error.code();
    if Status::of(code).http.is_server_error() {
        return Problem::new(code, format!("the limit could not be checked: {code}")).to_http();
    }
    Problem::from(error).to_http()
}

/// A response of the runtime.
///
/// # Errors
/// When a header is not accepted.
pub fn to_worker(response: HttpResponse<impl Into<Vec<u8>>>) -> worker::Result<Response> {
    let (parts, body) = response.into_parts();
    let headers = Headers::new();
    let body: Vec<u8> = body.into();
    let builder = Response::builder().with_status(parts.status.as_u16());
    let response = if body.is_empty() { builder.empty() } else { builder.fixed(body) };
    add(response.with_headers(headers), &parts.headers)
}

fn add(response: Response, headers: &HeaderMap) -> worker::Result<Response> {
    let all = response.headers().clone();
    for (name, value) in headers {
        let value = value.to_str().map_err(|error| error.to_string())?;
        all.set(name.as_str(), value)?;
    }
    Ok(response.with_headers(all))
}

#[cfg(test)]
mod tests {
    use super::network_of;

    #[test]
    fn an_ipv6_client_is_its_network() {
        assert_eq!(network_of("192.0.2.7"), "192.0.2.7");
        assert_eq!(network_of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network_of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(network_of("no address"), "no address");
    }
}
