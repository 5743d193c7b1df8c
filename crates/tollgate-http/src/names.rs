//! The names of the `RateLimit` fields, for writers and readers.
//!
//! A field is spelled here and nowhere else in the code. A test compares documents that name fields
//! (the API document, a page of docs, the configuration of a proxy) with what a server sends.

use http::HeaderName;

/// What is left of the limits, in the drafts from 07 on.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The limits, in all drafts.
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// Limit, remaining and reset, in drafts 00 to 06.
pub const DRAFT_06: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
/// The same of many services, and of Envoy.
pub const X_RATELIMIT: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];
/// The same of other services. They are read and never written.
pub(crate) const X_RATE_LIMIT: [HeaderName; 3] = [
    HeaderName::from_static("x-rate-limit-limit"),
    HeaderName::from_static("x-rate-limit-remaining"),
    HeaderName::from_static("x-rate-limit-reset"),
];
