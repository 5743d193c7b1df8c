//! Requests that pages of other sites make a browser send.
//!
//! A browser reaches a service on behalf of any page. A page cannot send a token that it does not
//! have; where none is needed, requests are refused that a browser marks as sent by a page of
//! another origin.

use http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use http::uri::Authority;
use http::{HeaderValue, Uri};
use tollgate_core::{Code, Error, Result};

use super::{Auth, Role};

pub(crate) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

impl Auth {
    /// Refuses a request that a page of another site has sent, where a client needs no token for a
    /// role. The origin of the service is the host of the request: that of its target, or else of
    /// its `Host`.
    ///
    /// # Errors
    /// `forbidden`.
    pub fn permit_site(&self, needed: Role, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        if self.role_without_token() < Some(needed) {
            return Ok(());
        }
        let crosses = |site: &HeaderValue| matches!(site.as_bytes(), b"cross-site" | b"same-site");
        if headers.get_all(SEC_FETCH_SITE).iter().any(crosses) {
            return Err(foreign("sec-fetch-site"));
        }
        if headers.get_all(ORIGIN).iter().any(|origin| !is_own(origin, uri, headers)) {
            return Err(foreign("origin"));
        }
        Ok(())
    }
}

/// Whether an origin is that of the service itself.
fn is_own(origin: &HeaderValue, uri: &Uri, headers: &HeaderMap) -> bool {
    let written = || Authority::try_from(headers.get(HOST)?.as_bytes()).ok();
    let host = uri.authority().cloned().or_else(written);
    let origin = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
    origin.is_some_and(|origin| origin.authority().is_some() && origin.authority() == host.as_ref())
}

fn foreign(field: &'static str) -> Error {
    let message = "is that of a page of another site; such a request needs a token";
    Error::new(Code::Forbidden, message).with_field(field)
}
