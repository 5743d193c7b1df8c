//! Keyed hashes of subjects, so that a store, its logs and its metrics learn nothing about them.

use tollgate_http::HashKey;

use super::{Extract, Unkeyed};
use crate::head::Head;
use crate::subject::Subject;

/// The keyed hash of a subject. Made by [`Extract::hashed`].
#[derive(Clone, Debug)]
pub struct Hashed<E> {
    inner: E,
    key: HashKey,
}

impl<E> Hashed<E> {
    pub(super) const fn new(inner: E, key: HashKey) -> Self {
        Self { inner, key }
    }
}

impl<E: Extract> Extract for Hashed<E> {
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        let mut clear = Subject::default();
        self.inner.extract(head, &mut clear)?;
        subject.push("hash=");
        self.key.write_hash(clear.as_str(), subject);
        Ok(())
    }
}
