//! The names of response fields about limits, for writers and readers.
//!
//! A field is spelled here and nowhere else in the code. A test compares documents that name fields
//! (the API document, a page of docs, the configuration of a proxy) with what a server sends.

use http::HeaderName;

/// What is left of the limits, in the drafts from 07 on.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The limits, in all drafts.
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// Milliseconds for which an allowed request has to wait before it proceeds.
pub const TOLLGATE_DELAY_MS: HeaderName = HeaderName::from_static("tollgate-delay-ms");
/// The outage mode that decided without the store.
pub const TOLLGATE_DEGRADED: HeaderName = HeaderName::from_static("tollgate-degraded");
/// The verdict that shadow mode replaced.
pub const TOLLGATE_SHADOW: HeaderName = HeaderName::from_static("tollgate-shadow");
/// The limit that decided, of several.
pub const TOLLGATE_BINDING: HeaderName = HeaderName::from_static("tollgate-binding");
/// `true`: a decision that was made before, under the same request id.
pub const TOLLGATE_REPLAYED: HeaderName = HeaderName::from_static("tollgate-replayed");
/// The fields of the gate that only some answers have.
pub const TOLLGATE: [HeaderName; 5] =
    [TOLLGATE_DELAY_MS, TOLLGATE_DEGRADED, TOLLGATE_SHADOW, TOLLGATE_BINDING, TOLLGATE_REPLAYED];
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
