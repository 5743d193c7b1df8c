//! What a response that is no success means.
//!
//! A refusal of the whole request (4xx) means that nothing ran. After anything else, some calls may
//! have run: the outcome is unknown. Of what the server answered only the first word is shown, and
//! phrases that are known to hold no key.

use tollgate_core::{Code, Error};

use super::http::Response;
use super::json::error_of;

/// What Upstash says about the limits of a plan.
const LIMITS: [&str; 4] = [
    "max requests limit exceeded",
    "max daily request limit exceeded",
    "max request size exceeded",
    "max concurrent connections exceeded",
];

/// How Upstash says that the plan's storage is used up.
const FULL: &str = "DB capacity quota exceeded";

/// The error that a response other than a success is.
pub(super) fn refusal(response: &Response) -> Error {
    let status = response.status;
    let text = error_of(&response.body).unwrap_or_default();
    if let Some(error) = is_full(&text) {
        return error;
    }
    let limit = LIMITS.iter().find(|limit| text.contains(*limit));
    let what = match (status, limit) {
        (_, Some(limit)) => format!("Upstash refuses ({limit}); see the limits of the plan"),
        (401 | 403, None) => format!("Upstash refuses the token (HTTP {status})"),
        (404 | 405 | 300..=399, None) => {
            format!("there is no REST interface at this URL (HTTP {status})")
        }
        (_, None) => format!("Upstash answered with HTTP status {status}"),
    };
    let error = Error::new(Code::StoreUnavailable, what);
    match status {
        // The request itself took too long to arrive. What was read of it is unknown.
        408 => error,
        300..=499 => error.not_sent(),
        _ => error,
    }
}

/// A database that is full is not an outage: failing open would admit every caller as long as it
/// lasts. Whether a script wrote something before it was refused is not known.
pub(super) fn is_full(text: &str) -> Option<Error> {
    let message = "the database is full (DB capacity quota exceeded) and refuses writes; raise the \
                   plan or let keys expire";
    text.contains(FULL).then(|| Error::new(Code::StoreFull, message))
}
