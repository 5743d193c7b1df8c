//! Who a request is charged to: extractors read the subject of a limit from the head of a request.
//!
//! Every extractor writes a tag first (`ip=`, `user=`), so that a user who is called like an
//! address never shares a budget with it. What cannot be read is an error that names the field:
//! strangers are never put into one bucket silently.

mod api_key;
mod by;
pub mod client_ip;
mod combine;
mod error;
mod extension;
mod hash;
mod header;
mod path;

use core::fmt::Debug;

use crate::head::Head;
use crate::subject::Subject;

pub use api_key::ApiKey;
pub use by::By;
pub use client_ip::ClientIp;
pub use combine::{And, Or, Tagged};
pub use error::{Trouble, Unkeyed};
pub use extension::User;
pub use hash::Hashed;
pub use header::Header;
pub use path::{Everybody, Path};
pub use tollgate_http::HashKey;

/// The longest text taken from a header, in bytes.
pub(crate) const TEXT_MAX_BYTES: usize = 512;

/// Reads the subject of a limit from a request.
pub trait Extract: Debug + Send + Sync {
    /// Appends the subject, tag first.
    ///
    /// # Errors
    /// When the request does not say who it is, or says it in a way that cannot be read.
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed>;

    /// This subject, or else the other one where this one is missing. What is there but cannot be
    /// read stays an error.
    fn or<E: Extract>(self, other: E) -> Or<Self, E>
    where
        Self: Sized,
    {
        Or(self, other)
    }

    /// Both subjects as one: per user and route, for instance.
    fn and<E: Extract>(self, other: E) -> And<Self, E>
    where
        Self: Sized,
    {
        And(self, other)
    }

    /// The same subject with one more tag, to keep it apart from all others.
    fn tagged(self, tag: &'static str) -> Tagged<Self>
    where
        Self: Sized,
    {
        Tagged(tag, self)
    }

    /// The keyed hash of the subject: the store learns nothing about it.
    fn hashed(self, key: HashKey) -> Hashed<Self>
    where
        Self: Sized,
    {
        Hashed::new(self, key)
    }
}

impl<E: Extract + ?Sized> Extract for Box<E> {
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        (**self).extract(head, subject)
    }
}
