//! Extractors made of extractors: fallbacks, combinations, tags.

use core::fmt::Write;

use super::{Extract, Trouble, Unkeyed};
use crate::head::Head;
use crate::subject::Subject;

/// The first subject, or the second where the first is missing. Made by [`Extract::or`].
#[derive(Clone, Debug)]
pub struct Or<A, B>(pub(super) A, pub(super) B);

impl<A: Extract, B: Extract> Extract for Or<A, B> {
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        // What the first wrote before it failed must not stay.
        let mut first = Subject::default();
        match self.0.extract(head, &mut first) {
            Ok(()) => {
                subject.push(first.as_str());
                Ok(())
            }
            Err(error) if error.trouble == Trouble::Missing => self.1.extract(head, subject),
            Err(error) => Err(error),
        }
    }
}

/// Both subjects as one. Made by [`Extract::and`].
#[derive(Clone, Debug)]
pub struct And<A, B>(pub(super) A, pub(super) B);

impl<A: Extract, B: Extract> Extract for And<A, B> {
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        let mut first = Subject::default();
        self.0.extract(head, &mut first)?;
        // The length goes first: so no text of the one can pass for text of the other.
        let _ = write!(subject, "{}.", first.as_str().len());
        subject.push(first.as_str());
        subject.push(",");
        self.1.extract(head, subject)
    }
}

/// A subject with a tag of its own. Made by [`Extract::tagged`].
#[derive(Clone, Debug)]
pub struct Tagged<E>(pub(super) &'static str, pub(super) E);

impl<E: Extract> Extract for Tagged<E> {
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        subject.push(self.0);
        subject.push("=");
        self.1.extract(head, subject)
    }
}
