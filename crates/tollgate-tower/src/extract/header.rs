//! The value of one header.

use http::HeaderName;

use super::{Extract, TEXT_MAX_BYTES, Unkeyed};
use crate::head::Head;
use crate::subject::Subject;

const ACCEPTED: &str = "one value of 1 to 512 bytes of text";

/// The value of a header. Only as trustworthy as whoever sets it: any client can choose it unless
/// a proxy overwrites it.
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
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        let text = only_value(head, &self.name)?;
        subject.push("header=");
        subject.push(self.name.as_str());
        subject.push("=");
        subject.push(text);
        Ok(())
    }
}

/// The one value of a header. Several are refused: others might go by another one than we do.
pub(super) fn only_value<'a>(head: &Head<'a>, name: &HeaderName) -> Result<&'a str, Unkeyed> {
    let mut values = head.headers.get_all(name).iter();
    let malformed = || Unkeyed::malformed(name.as_str(), ACCEPTED);
    let value = values.next().ok_or_else(|| Unkeyed::missing(name.as_str(), ACCEPTED))?;
    let text = core::str::from_utf8(value.as_bytes()).map_err(|_| malformed())?.trim();
    if values.next().is_some() || text.is_empty() || text.len() > TEXT_MAX_BYTES {
        return Err(malformed());
    }
    Ok(text)
}
