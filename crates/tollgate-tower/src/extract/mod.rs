//! Extractors read the subject of a limit from a request: its address, user, API key, route.
//!
//! Every extractor writes a tag first (`ip=`, `user=`), so that a user whose name is an address
//! does not share a budget with that address. A subject that cannot be read is an error that names
//! the field: requests without a subject never share one budget by accident.

mod adapters;
mod api_key;
pub mod client_ip;
mod error;
mod extension;
mod from_fn;
mod header;
mod path;

use core::fmt::Debug;

use crate::request_parts::RequestParts;
use crate::subject::Subject;

pub use adapters::{And, Hashed, Or, Tagged};
pub use api_key::ApiKey;
pub use client_ip::ClientIp;
pub use error::{ExtractError, ExtractErrorKind, ExtractResult};
pub use extension::User;
pub use from_fn::FromFn;
pub use header::Header;
pub use path::{Global, Path};
pub use tollgate_http::HashKey;

/// The longest text that is read from a header, in bytes.
pub(crate) const TEXT_MAX_BYTES: usize = 512;

/// Reads the subject of a limit from a request.
///
/// ```
/// use http::{HeaderName, Request};
/// use tollgate_tower::extract::{Extract, Header, Path};
/// use tollgate_tower::{RequestParts, Subject};
///
/// // One budget for each tenant and path.
/// let extract = Header::new(HeaderName::from_static("x-tenant")).and(Path);
///
/// let request = Request::get("/search").header("x-tenant", "acme").body(())?;
/// let mut subject = Subject::default();
/// extract.extract(&RequestParts::of(&request), &mut subject)?;
/// assert_eq!(subject.as_str(), "20.header=x-tenant=acme,path=/search");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Extract: Debug + Send + Sync {
    /// Appends the subject, after its tag.
    ///
    /// # Errors
    /// When the request has no such subject, or one that cannot be read.
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult;

    /// This subject, or the other one if this one is missing. A subject that cannot be read stays
    /// an error.
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

    /// The same subject with one more tag, which separates its budget from all others.
    fn tagged(self, tag: &'static str) -> Tagged<Self>
    where
        Self: Sized,
    {
        Tagged(tag, self)
    }

    /// The keyed hash of the subject, so that the store does not hold the subject itself.
    fn hashed(self, key: HashKey) -> Hashed<Self>
    where
        Self: Sized,
    {
        Hashed(self, key)
    }
}

impl<E: Extract + ?Sized> Extract for Box<E> {
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        (**self).extract(request, subject)
    }
}
