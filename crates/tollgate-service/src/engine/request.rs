//! A request as every protocol passes it to the engine, and the bounds on it.

use std::borrow::Cow;

use tollgate_core::{Charge, Cost, Error, Limit, RequestId, Result};

use crate::auth::Scope;

/// The longest key accepted, in bytes.
pub const KEY_MAX_BYTES: usize = 512;
/// The most requests in one batch.
pub const BATCH_MAX: usize = 1_000;

/// The limits of a charge.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// The limits of a policy.
    Policy(&'a str),
    /// A limit that is part of the request itself.
    Limit(&'a Limit),
}

/// Units requested for one key, under all limits of a policy.
#[derive(Clone, Copy, Debug)]
pub struct RequestedCharge<'a> {
    /// The limits.
    pub target: Target<'a>,
    /// The key that is limited.
    pub key: &'a str,
    /// Units requested; of a range the fewest.
    pub cost: Cost,
    /// The most units of a range; absent for an exact cost.
    pub up_to: Option<Cost>,
}

impl<'a> RequestedCharge<'a> {
    /// One unit for a key under a policy.
    #[must_use]
    pub const fn new(policy: &'a str, key: &'a str) -> Self {
        Self::under(Target::Policy(policy), key)
    }

    /// One unit for a key.
    #[must_use]
    pub const fn under(target: Target<'a>, key: &'a str) -> Self {
        Self { target, key, cost: Cost::ONE, up_to: None }
    }

    /// Sets the number of units.
    #[must_use]
    pub const fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Requests as many units as there are: at least the cost, at most this many.
    #[must_use]
    pub const fn up_to(mut self, most: Option<Cost>) -> Self {
        self.up_to = most;
        self
    }

    /// The same charge for the units that were granted elsewhere, as far as its range goes.
    pub(super) fn granting(mut self, granted: Option<Cost>) -> Self {
        if let (Some(most), Some(units)) = (self.up_to, granted) {
            self.cost = units.clamp(self.cost, most.max(self.cost));
            self.up_to = None;
        }
        self
    }

    /// A charge for these units.
    pub(super) const fn of<'c>(&self, charge: Charge<'c>) -> Charge<'c> {
        match self.up_to {
            None => charge.cost(self.cost),
            Some(most) => charge.cost(self.cost).up_to(most),
        }
    }
}

/// A request of any protocol: one or several charges, all or nothing.
#[derive(Clone, Copy, Debug)]
pub struct CheckRequest<'a> {
    charges: Charges<'a>,
    /// Requests with the same id are charged once.
    pub request_id: Option<&'a str>,
    /// Whether the response is to have a receipt. With a request id it has one anyway.
    pub receipt: bool,
    /// Whether the caller learns of a delay. Else policies that delay are refused.
    pub carries_delay: bool,
    /// The policies that the caller may use; absent for every one.
    scope: Option<&'a Scope>,
}

/// One charge is kept in place, so that no list has to be made for it.
#[derive(Clone, Copy, Debug)]
enum Charges<'a> {
    One([RequestedCharge<'a>; 1]),
    Listed(&'a [RequestedCharge<'a>]),
}

impl<'a> CheckRequest<'a> {
    /// One unit for a key under a policy.
    #[must_use]
    pub const fn new(policy: &'a str, key: &'a str) -> Self {
        Self::one(RequestedCharge::new(policy, key))
    }

    /// A request of one charge. Errors name its fields.
    #[must_use]
    pub const fn one(charge: RequestedCharge<'a>) -> Self {
        Self::with(Charges::One([charge]))
    }

    /// A request of several charges, or of a list of one. Errors name the element.
    #[must_use]
    pub const fn listed(charges: &'a [RequestedCharge<'a>]) -> Self {
        Self::with(Charges::Listed(charges))
    }

    const fn with(charges: Charges<'a>) -> Self {
        Self { charges, request_id: None, receipt: false, carries_delay: true, scope: None }
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

    /// Sets whether the caller learns of a delay.
    #[must_use]
    pub const fn carries_delay(mut self, carries_delay: bool) -> Self {
        self.carries_delay = carries_delay;
        self
    }

    /// Restricts the request to the policies that its caller may use.
    #[must_use]
    pub const fn within(mut self, scope: &'a Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// The charges, in the order in which they are applied.
    #[must_use]
    pub const fn charges(&self) -> &[RequestedCharge<'a>] {
        match &self.charges {
            Charges::One(one) => one,
            Charges::Listed(charges) => charges,
        }
    }

    /// Whether the charges are a list, whose elements errors name.
    pub(super) const fn is_listed(&self) -> bool {
        matches!(self.charges, Charges::Listed(_))
    }

    /// The policies that the caller may use.
    pub(super) const fn scope(&self) -> &Scope {
        match self.scope {
            Some(scope) => scope,
            None => &Scope::ALL,
        }
    }

    pub(super) fn id(&self) -> Result<Option<RequestId<'a>>> {
        self.request_id.map(RequestId::new).transpose()
    }
}

/// Accepts a range by its two numbers, each with the name of its field. Without a least number it
/// is one unit.
///
/// # Errors
/// `invalid_request` naming the field.
pub fn range(
    (least_field, least): (&'static str, Option<u64>),
    (most_field, most): (&'static str, u64),
) -> Result<(Cost, Cost)> {
    let named = |field| move |error: Error| error.with_field(field);
    let least = least.map_or(Ok(Cost::ONE), Cost::new).map_err(named(least_field))?;
    let most = Cost::new(most).map_err(named(most_field))?;
    if least > most {
        let wrong = format!("{least} is more than {most}, the most; accepted: up to that");
        return Err(Error::invalid(least_field, wrong));
    }
    Ok((least, most))
}

/// A request to give units back.
#[derive(Clone, Copy, Debug)]
pub enum RefundRequest<'a> {
    /// All units of the charges that a receipt proves.
    Receipt(&'a str),
    /// The newest units of a key, without proof that they were charged: for administrators.
    Units {
        /// The key and the units.
        charge: RequestedCharge<'a>,
        /// Refunds with the same id are made once.
        request_id: Option<&'a str>,
    },
}

/// A request to settle: to set the final costs of the charges that a receipt proves.
#[derive(Clone, Copy, Debug)]
pub struct SettleRequest<'a> {
    /// The receipt.
    pub receipt: &'a str,
    /// The final costs.
    pub costs: FinalCosts<'a>,
}

/// The units that were used, of charges that were made before.
#[derive(Clone, Copy, Debug)]
pub enum FinalCosts<'a> {
    /// The same number under every limit of the receipt.
    Every(u64),
    /// By limit; the charges of others stay as they are. A limit is named by its name within the
    /// policy, by `policy/name`, or by its place in the limits of the answer: `limits[0]`.
    Named(&'a [(Cow<'a, str>, u64)]),
}

/// Accepts keys of 1 to [`KEY_MAX_BYTES`] bytes.
pub(super) fn validate_key(key: &str) -> Result<()> {
    if key.is_empty() || key.len() > KEY_MAX_BYTES {
        let accepted = format!("has {} bytes; accepted: 1 to {KEY_MAX_BYTES}", key.len());
        return Err(Error::invalid("key", accepted));
    }
    Ok(())
}
