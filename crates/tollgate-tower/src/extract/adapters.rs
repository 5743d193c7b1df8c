//! Extractors over extractors: fallbacks, pairs, tags, hashes.

use core::fmt::Write;

use tollgate_http::HashKey;

use super::{Extract, ExtractErrorKind, ExtractResult};
use crate::request_parts::RequestParts;
use crate::subject::Subject;

/// The first subject, or the second if the first is missing. Made by [`Extract::or`].
#[derive(Clone, Debug)]
pub struct Or<A, B>(pub(super) A, pub(super) B);

impl<A: Extract, B: Extract> Extract for Or<A, B> {
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        // Separate, because an extractor may write before it fails.
        let mut first = Subject::default();
        match self.0.extract(request, &mut first) {
            Ok(()) => {
                subject.push(first.as_str());
                Ok(())
            }
            Err(error) if error.kind == ExtractErrorKind::Missing => {
                self.1.extract(request, subject)
            }
            Err(error) => Err(error),
        }
    }
}

/// Both subjects as one. Made by [`Extract::and`].
#[derive(Clone, Debug)]
pub struct And<A, B>(pub(super) A, pub(super) B);

impl<A: Extract, B: Extract> Extract for And<A, B> {
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        let mut first = Subject::default();
        self.0.extract(request, &mut first)?;
        // The length keeps the two apart: "a" and "b,c" must differ from "a,b" and "c".
        let _ = write!(subject, "{}.", first.as_str().len());
        subject.push(first.as_str());
        subject.push(",");
        self.1.extract(request, subject)
    }
}

/// A subject with one more tag. Made by [`Extract::tagged`].
#[derive(Clone, Debug)]
pub struct Tagged<E>(pub(super) &'static str, pub(super) E);

impl<E: Extract> Extract for Tagged<E> {
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        subject.push(self.0);
        subject.push("=");
        self.1.extract(request, subject)
    }
}

/// The keyed hash of a subject. Made by [`Extract::hashed`].
#[derive(Clone, Debug)]
pub struct Hashed<E>(pub(super) E, pub(super) HashKey);

impl<E: Extract> Extract for Hashed<E> {
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        let mut clear = Subject::default();
        self.0.extract(request, &mut clear)?;
        subject.push("hash=");
        self.1.write_hash(clear.as_str(), subject);
        Ok(())
    }
}
