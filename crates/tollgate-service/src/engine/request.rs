//! A request as every protocol passes it to the engine, and the bounds on it.

use tollgate_core::{Cost, Error, Limit, Result};

/// The longest key accepted, in bytes.
pub const KEY_MAX_BYTES: usize = 512;
/// The most requests in one batch.
pub const BATCH_MAX: usize = 1_000;

/// The limits of a request.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// The limits of a policy.
    Policy(&'a str),
    /// A limit that is part of the request itself.
    Limit(&'a Limit),
}

/// A request of any protocol.
#[derive(Clone, Copy, Debug)]
pub struct CheckRequest<'a> {
    /// The limits.
    pub target: Target<'a>,
    /// The key that is limited.
    pub key: &'a str,
    /// Units requested.
    pub cost: Cost,
    /// Requests with the same id are charged once.
    pub request_id: Option<&'a str>,
    /// Whether the response is to have a receipt. With a request id it has one anyway.
    pub receipt: bool,
}

impl<'a> CheckRequest<'a> {
    /// One unit for a key under a policy.
    #[must_use]
    pub const fn new(policy: &'a str, key: &'a str) -> Self {
        Self {
            target: Target::Policy(policy),
            key,
            cost: Cost::ONE,
            request_id: None,
            receipt: false,
        }
    }

    /// Sets the number of units.
    #[must_use]
    pub const fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Sets the request id.
    #[must_use]
    pub const fn request_id(mut self, request_id: Option<&'a str>) -> Self {
        self.request_id = request_id;
        self
    }

    /// Sets whether the response is to have a receipt.
    #[must_use]
    pub const fn receipt(mut self, receipt: bool) -> Self {
        self.receipt = receipt;
        self
    }
}

/// A request to give units back.
#[derive(Clone, Copy, Debug)]
pub enum RefundRequest<'a> {
    /// All units of the charges that a receipt proves.
    Receipt(&'a str),
    /// The newest units of a key, without proof that they were charged: for administrators.
    Units(CheckRequest<'a>),
}

/// Accepts keys of 1 to [`KEY_MAX_BYTES`] bytes.
pub(super) fn validate_key(key: &str) -> Result<()> {
    if key.is_empty() || key.len() > KEY_MAX_BYTES {
        let accepted = format!("has {} bytes; accepted: 1 to {KEY_MAX_BYTES}", key.len());
        return Err(Error::invalid("key", accepted));
    }
    Ok(())
}
