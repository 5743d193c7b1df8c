//! Keyed hashes of subjects.

use tollgate_http::HashKey;

use super::{Extract, ExtractResult};
use crate::request_parts::RequestParts;
use crate::subject::Subject;

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
