//! From messages of `tollgate.v1` to requests of the engine.

use std::borrow::Cow;

use tollgate::{Cost, Error};
use tollgate_proto::tollgate_v1 as pb;
use tollgate_service::engine::{
    CheckRequest, Failure, FinalCosts, RefundRequest, RequestedCharge, SettleRequest, range,
};
use tollgate_service::policy::DEFAULT_POLICY;

/// The name of a policy; the default one has none.
pub(super) fn policy(name: &str) -> &str {
    if name.is_empty() { DEFAULT_POLICY } else { name }
}

/// A number of units, or a range of them.
fn units(cost: Option<u64>, max_cost: Option<u64>) -> Result<(Cost, Option<Cost>), Error> {
    let Some(most) = max_cost else { return Ok((cost.map_or(Ok(Cost::ONE), Cost::new)?, None)) };
    let (least, most) = range(("cost", cost), ("max_cost", most))?;
    Ok((least, Some(most)))
}

fn charge(charge: &pb::Charge) -> Result<RequestedCharge<'_>, Error> {
    let (cost, up_to) = units(charge.cost, charge.max_cost)?;
    Ok(RequestedCharge::new(policy(&charge.policy), &charge.key).cost(cost).up_to(up_to))
}

/// The charges of a list; errors name the element.
pub(super) fn charges(listed: &[pb::Charge]) -> Result<Vec<RequestedCharge<'_>>, Failure> {
    let read = |(index, element)| {
        let within = |error| Failure::from(error).within(&format!("charges[{index}]"));
        charge(element).map_err(within)
    };
    listed.iter().enumerate().map(read).collect()
}

/// A request for a decision, with the charges that [`charges`] has made of its list.
pub(super) fn acquire<'a>(
    request: &'a pb::AcquireRequest,
    listed: &'a [RequestedCharge<'a>],
) -> Result<CheckRequest<'a>, Failure> {
    let pb::AcquireRequest { cost, max_cost, request_id, receipt, .. } = request;
    let check = if listed.is_empty() {
        let (cost, up_to) = units(*cost, *max_cost)?;
        let charge = RequestedCharge::new(policy(&request.policy), &request.key);
        CheckRequest::one(charge.cost(cost).up_to(up_to))
    } else {
        alone(request.policy.is_empty() && request.key.is_empty())?;
        alone(cost.is_none() && max_cost.is_none())?;
        CheckRequest::listed(listed)
    };
    Ok(check.request_id(request_id.as_deref()).receipt(*receipt))
}

/// A request that names keys alone.
pub(super) fn keys<'a>(
    name: &'a str,
    key: &'a str,
    listed: &'a [RequestedCharge<'a>],
) -> Result<CheckRequest<'a>, Failure> {
    if listed.is_empty() {
        return Ok(CheckRequest::new(policy(name), key));
    }
    alone(name.is_empty() && key.is_empty())?;
    Ok(CheckRequest::listed(listed))
}

/// Refuses a list of charges beside the fields of one.
fn alone(is_alone: bool) -> Result<(), Error> {
    if is_alone {
        return Ok(());
    }
    let accepted = "names the keys and their costs; accepted: charges, or without it policy, key, \
                    cost, max_cost";
    Err(Error::invalid("charges", accepted))
}

/// A request to give back.
pub(super) fn refund(request: &pb::RefundRequest) -> Result<RefundRequest<'_>, Failure> {
    let Some(receipt) = &request.receipt else {
        let (cost, _) = units(request.cost, None)?;
        let charge = RequestedCharge::new(policy(&request.policy), &request.key).cost(cost);
        return Ok(RefundRequest::Units { charge, request_id: request.request_id.as_deref() });
    };
    let alone = pb::RefundRequest { receipt: request.receipt.clone(), ..Default::default() };
    if *request != alone {
        let accepted = "names all that is given back; accepted: receipt alone, or without it key, \
                        policy, cost, request_id";
        return Err(Error::invalid("receipt", accepted).into());
    }
    Ok(RefundRequest::Receipt(receipt))
}

/// The final costs of a request by limit, in the order of their names.
pub(super) fn costs(request: &pb::SettleRequest) -> Vec<(Cow<'_, str>, u64)> {
    let named = request.costs.iter().map(|(name, cost)| (Cow::Borrowed(name.as_str()), *cost));
    let mut costs: Vec<_> = named.collect();
    costs.sort_unstable();
    costs
}

/// A request to settle, with the costs that [`costs`] has made of its map.
pub(super) fn settle<'a>(
    request: &'a pb::SettleRequest,
    costs: &'a [(Cow<'a, str>, u64)],
) -> Result<SettleRequest<'a>, Failure> {
    let costs = match (request.cost, costs) {
        (Some(cost), []) => FinalCosts::Every(cost),
        (None, [_, ..]) => FinalCosts::Named(costs),
        (None, []) => {
            let accepted = "is missing; accepted: cost, or costs by the names of limits";
            return Err(Error::invalid("cost", accepted).into());
        }
        (Some(_), [_, ..]) => {
            let accepted = "is another way to say cost; accepted: one of them";
            return Err(Error::invalid("costs", accepted).into());
        }
    };
    Ok(SettleRequest { receipt: &request.receipt, costs })
}
