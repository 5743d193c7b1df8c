//! API keys. They are secrets, so a subject holds only their keyed hash.

use http::{HeaderName, header};

use super::header::only_value;
use super::{Extract, ExtractError, ExtractResult, HashKey};
use crate::request_parts::RequestParts;
use crate::subject::Subject;

/// The API key of a request, as a keyed hash.
///
/// Clients choose keys that are not verified: place this layer inside the one that verifies keys,
/// or limit by address as well.
///
/// ```
/// use tollgate_tower::extract::{ApiKey, HashKey};
///
/// let secret = HashKey::new(b"at least sixteen bytes")?;
/// let bearer = ApiKey::bearer(secret.clone());
/// let header = ApiKey::header(http::HeaderName::from_static("x-api-key"), secret);
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ApiKey {
    name: HeaderName,
    is_bearer: bool,
    key: HashKey,
}

impl ApiKey {
    /// A key in a header such as `x-api-key`.
    #[must_use]
    pub const fn header(name: HeaderName, key: HashKey) -> Self {
        Self { name, is_bearer: false, key }
    }

    /// A key in `Authorization: Bearer …`.
    #[must_use]
    pub const fn bearer(key: HashKey) -> Self {
        Self { name: header::AUTHORIZATION, is_bearer: true, key }
    }
}

impl Extract for ApiKey {
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        let mut text = only_value(request, &self.name)?;
        if self.is_bearer {
            let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Err(ExtractError::missing(self.name.as_str(), "Bearer and a token"));
            }
            text = token.trim_start();
            if text.is_empty() {
                return Err(ExtractError::malformed(self.name.as_str(), "Bearer and a token"));
            }
        }
        subject.push("key=");
        self.key.write_hash(text, subject);
        Ok(())
    }
}
