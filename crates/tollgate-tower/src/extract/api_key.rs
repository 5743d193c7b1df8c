//! API keys: secrets, so only their keyed hash ever becomes a subject.

use http::{HeaderName, header};

use super::header::only_value;
use super::{Extract, HashKey, Unkeyed};
use crate::head::Head;
use crate::subject::Subject;

/// The API key of a request. What the store and its operators see is a keyed hash of it.
///
/// A key that nobody has checked is only a text that the client chose: put this layer behind
/// the one that checks it, or limit by address as well.
#[derive(Clone, Debug)]
pub struct ApiKey {
    name: HeaderName,
    is_bearer: bool,
    key: HashKey,
}

impl ApiKey {
    /// The key in a header of its own, such as `x-api-key`.
    #[must_use]
    pub const fn header(name: HeaderName, key: HashKey) -> Self {
        Self { name, is_bearer: false, key }
    }

    /// The key in `Authorization: Bearer …`.
    #[must_use]
    pub const fn bearer(key: HashKey) -> Self {
        Self { name: header::AUTHORIZATION, is_bearer: true, key }
    }
}

impl Extract for ApiKey {
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        let mut text = only_value(head, &self.name)?;
        if self.is_bearer {
            let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Err(Unkeyed::missing(self.name.as_str(), "Bearer and a token"));
            }
            text = token.trim_start();
            if text.is_empty() {
                return Err(Unkeyed::malformed(self.name.as_str(), "Bearer and a token"));
            }
        }
        subject.push("key=");
        self.key.write_hash(text, subject);
        Ok(())
    }
}
