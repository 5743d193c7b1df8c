//! The value of one header.

use http::HeaderName;

use super::{Extract, ExtractError, ExtractResult, TEXT_MAX_BYTES};
use crate::request_parts::RequestParts;
use crate::subject::Subject;

const ACCEPTED: &str = "one value of 1 to 512 bytes of text";

/// The value of a header. Clients can choose it, unless a proxy overwrites it.
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
}

impl Header {
    /// The header of this name.
    #[must_use]
    pub const fn new(name: HeaderName) -> Self {
        Self { name }
    }
}

impl Extract for Header {
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        let text = only_value(request, &self.name)?;
        subject.push("header=");
        subject.push(self.name.as_str());
        subject.push("=");
        subject.push(text);
        Ok(())
    }
}

/// The only value of a header. Several values are refused, because the service may read another
/// one.
pub(super) fn only_value<'a>(
    request: &RequestParts<'a>,
    name: &HeaderName,
) -> ExtractResult<&'a str> {
    let mut values = request.headers.get_all(name).iter();
    let malformed = || ExtractError::malformed(name.as_str(), ACCEPTED);
    let value = values.next().ok_or_else(|| ExtractError::missing(name.as_str(), ACCEPTED))?;
    let text = core::str::from_utf8(value.as_bytes()).map_err(|_| malformed())?.trim();
    if values.next().is_some() || text.is_empty() || text.len() > TEXT_MAX_BYTES {
        return Err(malformed());
    }
    Ok(text)
}
