//! Subjects that a closure reads.

use core::fmt;

use super::{Extract, ExtractError, ExtractResult};
use crate::request_parts::RequestParts;
use crate::subject::Subject;

/// A subject that a closure reads from the request.
///
/// ```
/// use tollgate_tower::extract::FromFn;
///
/// let agent = FromFn::new("agent", |request| request.headers.get("user-agent")?.to_str().ok());
/// # let _: &dyn tollgate_tower::extract::Extract = &agent;
/// ```
#[derive(Clone)]
pub struct FromFn<F> {
    tag: &'static str,
    read: F,
}

impl<F> FromFn<F>
where
    F: for<'a> Fn(&RequestParts<'a>) -> Option<&'a str> + Send + Sync,
{
    /// The text that `read` returns, under a tag. `None` means that the request has none.
    pub fn new(tag: &'static str, read: F) -> Self {
        Self { tag, read }
    }
}

impl<F> Extract for FromFn<F>
where
    F: for<'a> Fn(&RequestParts<'a>) -> Option<&'a str> + Send + Sync,
{
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        let missing = || ExtractError::missing(self.tag, "a request that has it");
        let text = (self.read)(request).ok_or_else(missing)?;
        subject.push(self.tag);
        subject.push("=");
        subject.push(text);
        Ok(())
    }
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").field("tag", &self.tag).finish_non_exhaustive()
    }
}
