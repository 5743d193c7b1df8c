//! From fields to requests of the engine.

use std::borrow::Cow;

use tollgate_core::{Cost, Error, Result};

use super::fields::{Fields, Numbers, Value};
use crate::engine::{
    BATCH_MAX, CheckRequest, Failure, FinalCosts, RefundRequest, RequestedCharge, SettleRequest,
    range,
};
use crate::policy::{DEFAULT_POLICY, LIMITS_MAX};

/// A key under a policy, and the units requested.
#[derive(Debug)]
struct OwnedCharge<'a> {
    policy: Cow<'a, str>,
    key: Cow<'a, str>,
    cost: Cost,
    up_to: Option<Cost>,
}

impl<'a> OwnedCharge<'a> {
    const FIELDS: [&'static str; 3] = ["policy", "key", "cost"];

    /// Takes the fields of an object.
    fn of(fields: &mut Fields<'a>) -> Result<Self> {
        let (cost, up_to) = cost(fields)?;
        Self::with_cost(fields, cost, up_to)
    }

    fn with_cost(fields: &mut Fields<'a>, cost: Cost, up_to: Option<Cost>) -> Result<Self> {
        Ok(Self {
            policy: fields.text("policy")?.unwrap_or(Cow::Borrowed(DEFAULT_POLICY)),
            key: fields.text("key")?.ok_or_else(|| Error::invalid("key", "is missing"))?,
            cost,
            up_to,
        })
    }

    fn requested(&self) -> RequestedCharge<'_> {
        RequestedCharge::new(&self.policy, &self.key).cost(self.cost).up_to(self.up_to)
    }
}

/// The units of a body: a number, or a range `{"min": 1, "max": 10}`.
fn cost(fields: &mut Fields<'_>) -> Result<(Cost, Option<Cost>)> {
    let Some(value) = fields.take("cost") else { return Ok((Cost::ONE, None)) };
    match value {
        Value::Whole(units) => Ok((Cost::new(units)?, None)),
        Value::Object(_) => {
            let inside = |error: Error| {
                let field = error.field().map_or_else(String::new, |field| format!(".{field}"));
                error.with_field(format!("cost{field}"))
            };
            let mut of = Fields::of_value(value, &["min", "max"]).map_err(inside)?;
            let least = of.whole("min", "cost.min")?;
            let most = of.whole("max", "cost.max")?;
            let most = most.ok_or_else(|| Error::invalid("cost.max", "is missing"))?;
            let (least, most) = range(("cost.min", least), ("cost.max", most))?;
            Ok((least, Some(most)))
        }
        other => {
            let accepted = "accepted: a whole number that is not negative, or a range of two: \
                            {\"min\": 1, \"max\": 10}";
            Err(Error::invalid("cost", format!("is {}; {accepted}", other.kind())))
        }
    }
}

/// The fields that most endpoints have in common.
#[derive(Debug)]
pub(super) struct Request<'a> {
    charges: OwnedCharges<'a>,
    request_id: Option<Cow<'a, str>>,
    receipt: bool,
}

#[derive(Debug)]
enum OwnedCharges<'a> {
    One(OwnedCharge<'a>),
    Listed(Vec<OwnedCharge<'a>>),
}

impl<'a> Request<'a> {
    /// The fields of acquire and peek.
    pub(super) const FIELDS: [&'static str; 6] =
        ["policy", "key", "cost", "charges", "request_id", "receipt"];
    /// The fields that name keys.
    pub(super) const KEY_FIELDS: [&'static str; 3] = ["policy", "key", "charges"];

    /// Takes the fields of a body.
    fn of(fields: &mut Fields<'a>) -> Result<Self, Failure> {
        let (request_id, receipt) = (fields.text("request_id")?, fields.truth("receipt")?);
        let charges = match fields.list("charges", LIMITS_MAX)? {
            None => OwnedCharges::One(OwnedCharge::of(fields)?),
            Some(_) if !fields.is_empty() => {
                let accepted = "names the keys and their costs; accepted: charges, or without it \
                                policy, key, cost";
                return Err(Error::invalid("charges", accepted).into());
            }
            Some(elements) => OwnedCharges::Listed(charges(elements)?),
        };
        Ok(Self { charges, request_id, receipt: receipt.unwrap_or(false) })
    }

    /// Takes the fields of a query.
    pub(super) fn of_query(fields: &mut Fields<'a>) -> Result<Self> {
        let cost = fields.whole_text("cost")?.map_or(Ok(Cost::ONE), Cost::new)?;
        let charges = OwnedCharges::One(OwnedCharge::with_cost(fields, cost, None)?);
        Ok(Self { charges, request_id: fields.text("request_id")?, receipt: false })
    }

    /// Reads a body that holds no other fields than `known`.
    pub(super) fn of_body(body: &'a [u8], known: &[&str]) -> Result<Self, Failure> {
        Self::of(&mut Fields::of_json(body, known)?)
    }

    /// The elements of a request that lists charges, for [`Request::check`].
    pub(super) fn listed(&self) -> Vec<RequestedCharge<'_>> {
        match &self.charges {
            OwnedCharges::One(_) => Vec::new(),
            OwnedCharges::Listed(charges) => charges.iter().map(OwnedCharge::requested).collect(),
        }
    }

    /// The request of the engine, with the charges that [`Request::listed`] has made.
    pub(super) fn check<'r>(&'r self, listed: &'r [RequestedCharge<'r>]) -> CheckRequest<'r> {
        let check = match &self.charges {
            OwnedCharges::One(charge) => CheckRequest::one(charge.requested()),
            OwnedCharges::Listed(_) => CheckRequest::listed(listed),
        };
        check.request_id(self.request_id.as_deref()).receipt(self.receipt)
    }
}

/// The charges of a list; errors name the element.
fn charges(elements: Vec<Value<'_>>) -> Result<Vec<OwnedCharge<'_>>, Failure> {
    let read = |(index, element)| {
        let charge = Fields::of_value(element, &OwnedCharge::FIELDS)
            .and_then(|mut fields| OwnedCharge::of(&mut fields));
        charge.map_err(|error| Failure::from(error).within(&format!("charges[{index}]")))
    };
    elements.into_iter().enumerate().map(read).collect()
}

/// A key under a policy, and nothing else.
#[derive(Debug)]
pub(super) struct KeyOf<'a>(OwnedCharge<'a>);

impl<'a> KeyOf<'a> {
    /// Reads a body.
    pub(super) fn of_body(body: &'a [u8]) -> Result<Self> {
        let mut fields = Fields::of_json(body, &["policy", "key"])?;
        OwnedCharge::of(&mut fields).map(Self)
    }

    /// The policy and the key.
    pub(super) fn names(&self) -> (&str, &str) {
        (&self.0.policy, &self.0.key)
    }
}

/// A key and perhaps a policy, of a body with nothing else.
///
/// # Errors
/// `invalid_request` naming the field.
pub fn key_and_policy(body: &[u8]) -> Result<(Cow<'_, str>, Option<Cow<'_, str>>)> {
    let mut fields = Fields::of_json(body, &["policy", "key"])?;
    let key = fields.text("key")?.ok_or_else(|| Error::invalid("key", "is missing"))?;
    Ok((key, fields.text("policy")?))
}

/// What is to be given back: what a receipt proves, or units of a key.
#[derive(Debug)]
pub(super) enum Refund<'a> {
    Receipt(Cow<'a, str>),
    Units(OwnedUnits<'a>),
}

/// Units of a key, perhaps under a request id.
#[derive(Debug)]
pub(super) struct OwnedUnits<'a> {
    charge: OwnedCharge<'a>,
    request_id: Option<Cow<'a, str>>,
}

impl<'a> Refund<'a> {
    const FIELDS: [&'static str; 5] = ["policy", "key", "cost", "request_id", "receipt"];

    /// Reads a body that holds a receipt and nothing else, or a key.
    pub(super) fn of_body(body: &'a [u8]) -> Result<Self> {
        let mut fields = Fields::of_json(body, &Self::FIELDS)?;
        match fields.text("receipt")? {
            None if fields.is_empty() => {
                let accepted = "is missing; accepted: a receipt, or for administrators a key";
                Err(Error::invalid("receipt", accepted))
            }
            None => OwnedUnits::of(&mut fields).map(Self::Units),
            Some(receipt) if fields.is_empty() => Ok(Self::Receipt(receipt)),
            Some(_) => {
                let accepted = "names all that is given back; accepted: receipt alone, or without \
                                it key, policy, cost, request_id";
                Err(Error::invalid("receipt", accepted))
            }
        }
    }

    /// The request of the engine.
    pub(super) fn request(&self) -> RefundRequest<'_> {
        match self {
            Self::Receipt(text) => RefundRequest::Receipt(text),
            Self::Units(OwnedUnits { charge, request_id }) => RefundRequest::Units {
                charge: charge.requested(),
                request_id: request_id.as_deref(),
            },
        }
    }
}

impl<'a> OwnedUnits<'a> {
    fn of(fields: &mut Fields<'a>) -> Result<Self> {
        let cost = fields.whole("cost", "cost")?.map_or(Ok(Cost::ONE), Cost::new)?;
        let charge = OwnedCharge::with_cost(fields, cost, None)?;
        Ok(Self { charge, request_id: fields.text("request_id")? })
    }
}

/// The final costs of the charges that a receipt proves.
#[derive(Debug)]
pub(super) struct Settle<'a> {
    receipt: Cow<'a, str>,
    costs: OwnedCosts<'a>,
}

#[derive(Debug)]
enum OwnedCosts<'a> {
    Every(u64),
    Named(Numbers<'a>),
}

impl<'a> Settle<'a> {
    const FIELDS: [&'static str; 3] = ["receipt", "cost", "costs"];

    /// Reads a body that holds a receipt, and one cost or several.
    pub(super) fn of_body(body: &'a [u8]) -> Result<Self> {
        let mut fields = Fields::of_json(body, &Self::FIELDS)?;
        let receipt = fields.text("receipt")?;
        let receipt = receipt.ok_or_else(|| Error::invalid("receipt", "is missing"))?;
        let costs = match (fields.whole("cost", "cost")?, fields.numbers("costs")?) {
            (Some(cost), None) => OwnedCosts::Every(cost),
            (None, Some(costs)) => OwnedCosts::Named(costs),
            (None, None) => {
                let accepted = "is missing; accepted: cost, or costs by the names of limits";
                return Err(Error::invalid("cost", accepted));
            }
            (Some(_), Some(_)) => {
                let accepted = "is another way to say cost; accepted: one of them";
                return Err(Error::invalid("costs", accepted));
            }
        };
        Ok(Self { receipt, costs })
    }

    /// The request of the engine.
    pub(super) fn request(&self) -> SettleRequest<'_> {
        let costs = match &self.costs {
            OwnedCosts::Every(cost) => FinalCosts::Every(*cost),
            OwnedCosts::Named(costs) => FinalCosts::Named(costs),
        };
        SettleRequest { receipt: &self.receipt, costs }
    }
}

/// The requests of a batch; each may be invalid on its own.
pub(super) fn batch(body: &[u8]) -> Result<Vec<Result<Request<'_>, Failure>>> {
    let mut fields = Fields::of_json(body, &["requests"])?;
    let requests = fields.list("requests", BATCH_MAX)?.ok_or_else(|| {
        let accepted = format!("is missing; accepted: an array of up to {BATCH_MAX} requests");
        Error::invalid("requests", accepted)
    })?;
    let read = |value| Request::of(&mut Fields::of_value(value, &Request::FIELDS)?);
    Ok(requests.into_iter().map(read).collect())
}
