//! What is asked, as every protocol hands it over, and the bounds on it.

use tollgate::{Cost, Limit};

use super::Failure;

/// The longest key accepted, in bytes.
pub const KEY_MAX_BYTES: usize = 512;
/// The most requests in one batch.
pub const BATCH_MAX: usize = 1_000;

/// Under which limits a request is decided.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// The limits of a policy.
    Policy(&'a str),
    /// A limit that the request itself brought.
    Limit(&'a Limit),
}

/// A request of any protocol.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Under which limits.
    pub target: Target<'a>,
    /// Who or what is limited.
    pub key: &'a str,
    /// Units asked for.
    pub cost: Cost,
    /// Charged at most once under this id.
    pub request_id: Option<&'a str>,
}

impl<'a> Ask<'a> {
    /// One unit for a key under a policy.
    #[must_use]
    pub const fn new(policy: &'a str, key: &'a str) -> Self {
        Self { target: Target::Policy(policy), key, cost: Cost::ONE, request_id: None }
    }

    /// The same request for another number of units.
    #[must_use]
    pub const fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// The same request, charged at most once.
    #[must_use]
    pub const fn request_id(mut self, request_id: Option<&'a str>) -> Self {
        self.request_id = request_id;
        self
    }
}

/// Refuses keys that are empty or too long.
pub(super) fn accept_key(key: &str) -> Result<(), Failure> {
    if key.is_empty() || key.len() > KEY_MAX_BYTES {
        let accepted = format!("has {} bytes; accepted: 1 to {KEY_MAX_BYTES}", key.len());
        return Err(tollgate::Error::invalid("key", accepted).into());
    }
    Ok(())
}

/// Refuses batches that are too long.
///
/// # Errors
/// `invalid_request` naming `requests`.
pub fn accept_batch(length: usize) -> Result<(), Failure> {
    if length > BATCH_MAX {
        let accepted = format!("has {length} elements; accepted: up to {BATCH_MAX}");
        return Err(tollgate::Error::invalid("requests", accepted).into());
    }
    Ok(())
}
