//! Any subject, by a closure.

use core::fmt;

use super::{Extract, Unkeyed};
use crate::head::Head;
use crate::subject::Subject;

/// A subject that a closure reads from the request.
#[derive(Clone)]
pub struct By<F> {
    tag: &'static str,
    read: F,
}

impl<F> By<F>
where
    F: for<'a> Fn(&Head<'a>) -> Option<&'a str> + Send + Sync,
{
    /// The text that `read` finds, under a tag. `None` means that it is missing.
    pub fn new(tag: &'static str, read: F) -> Self {
        Self { tag, read }
    }
}

impl<F> Extract for By<F>
where
    F: for<'a> Fn(&Head<'a>) -> Option<&'a str> + Send + Sync,
{
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        let missing = || Unkeyed::missing(self.tag, "a request that has it");
        let text = (self.read)(head).ok_or_else(missing)?;
        subject.push(self.tag);
        subject.push("=");
        subject.push(text);
        Ok(())
    }
}

impl<F> fmt::Debug for By<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("By").field("tag", &self.tag).finish_non_exhaustive()
    }
}
