//! The commands after a charge: `TG.SETTLE receipt cost`, `TG.REFUND receipt`, or for
//! administrators `TG.REFUND policy key [cost [request_id]]` and `TG.RESET policy key`.

use std::borrow::Cow;

use bytes::Bytes;
use tollgate::{Decision, Result};
use tollgate_service::engine::{
    Failure, FinalCosts, RefundRequest, SettleRequest, SettleResponse, SettledLimit,
};
use tollgate_service::policy::LIMITS_MAX;

use super::arguments::{OwnedCharge, text, usage, whole};
use super::check::failed;
use super::reply::Reply;

/// A parsed command.
#[derive(Debug)]
pub(super) enum RefundCommand {
    Receipt(String),
    Units(OwnedCharge, Option<String>),
}

impl RefundCommand {
    pub(super) fn parse(arguments: &[Bytes]) -> Result<Self> {
        let (charge, id) = match arguments {
            [receipt] => return text("receipt", receipt).map(Self::Receipt),
            [policy, key] => (OwnedCharge::of(policy, key, None)?, None),
            [policy, key, cost] => (OwnedCharge::of(policy, key, Some(cost))?, None),
            [policy, key, cost, id] => (OwnedCharge::of(policy, key, Some(cost))?, Some(id)),
            _ => {
                let forms = "TG.REFUND receipt, or TG.REFUND policy key [cost [request_id]]";
                return Err(usage(forms));
            }
        };
        let id = id.map(|id| text("request_id", id)).transpose()?;
        Ok(Self::Units(charge.exact()?, id))
    }

    /// The request of the engine.
    pub(super) fn request(&self) -> RefundRequest<'_> {
        match self {
            Self::Receipt(text) => RefundRequest::Receipt(text),
            Self::Units(charge, id) => {
                RefundRequest::Units { charge: charge.requested(), request_id: id.as_deref() }
            }
        }
    }
}

/// `TG.SETTLE receipt cost`, or `TG.SETTLE receipt limit cost [limit cost ...]`.
#[derive(Debug)]
pub(super) struct SettleCommand {
    receipt: String,
    costs: OwnedCosts,
}

#[derive(Debug)]
enum OwnedCosts {
    Every(u64),
    Named(Vec<(Cow<'static, str>, u64)>),
}

impl SettleCommand {
    pub(super) fn parse(arguments: &[Bytes]) -> Result<Self> {
        let form = "TG.SETTLE receipt cost, or TG.SETTLE receipt limit cost [limit cost ...]";
        let (receipt, costs) = match arguments {
            [receipt, cost] => (receipt, OwnedCosts::Every(whole("cost", cost)?)),
            [receipt, pairs @ ..] if pairs.len() <= 2 * LIMITS_MAX => {
                let pair = |words: &[Bytes]| match words {
                    [limit, cost] => Ok((text("limit", limit)?.into(), whole("cost", cost)?)),
                    _ => Err(usage(form)),
                };
                let costs = pairs.chunks(2).map(pair).collect::<Result<Vec<_>>>()?;
                if costs.is_empty() {
                    return Err(usage(form));
                }
                (receipt, OwnedCosts::Named(costs))
            }
            _ => return Err(usage(form)),
        };
        Ok(Self { receipt: text("receipt", receipt)?, costs })
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

/// The key of `TG.RESET policy key`.
pub(super) fn parse_reset(arguments: &[Bytes]) -> Result<OwnedCharge> {
    let [policy, key] = arguments else { return Err(usage("TG.RESET policy key")) };
    OwnedCharge::of(policy, key, None)
}

/// The reply to `TG.RESET`.
pub(super) fn reset(result: Result<(), Failure>) -> Reply {
    result.map_or_else(|failure| failed(&failure), |()| Reply::Simple("OK"))
}

/// Refunded units, limit, remaining, the instant of the reset, whether the reply repeats an earlier
/// one; and the refunded units of each limit by name.
pub(super) fn refunded(result: Result<SettleResponse, Failure>) -> Reply {
    let refund = match result {
        Ok(refund) => refund,
        Err(failure) => return failed(&failure),
    };
    let limits = refund.limits.iter();
    let limits =
        limits.map(|one| (Reply::Name(one.name.name.clone()), Reply::number(one.refunded)));
    let mut fields = vec![("refunded", Reply::number(refund.refunded()))];
    fields.extend(numbers(&refund.standing));
    fields.extend([
        ("replayed", Reply::Truth(refund.standing.replayed)),
        ("limits", Reply::Map(limits.collect())),
    ]);
    Reply::Fields(fields)
}

/// Units given back, charged and dropped, the numbers of the key, whether the reply repeats an
/// earlier one; and the same of each limit.
pub(super) fn settled(result: Result<SettleResponse, Failure>) -> Reply {
    let settled = match result {
        Ok(settled) => settled,
        Err(failure) => return failed(&failure),
    };
    let limit = |(limit, own): (&SettledLimit, &Decision)| {
        let mut fields =
            vec![("name", (&limit.name.name).into()), ("policy", (&limit.name.policy).into())];
        fields.extend(units([limit.refunded, limit.charged, limit.dropped]));
        fields.extend(numbers(own));
        Reply::Fields(fields)
    };
    let mut fields = Vec::with_capacity(8);
    fields.extend(units([settled.refunded(), settled.charged(), settled.dropped()]));
    fields.extend(numbers(&settled.standing));
    fields.extend([
        ("replayed", Reply::Truth(settled.standing.replayed)),
        ("limits", Reply::Array(settled.standings().map(limit).collect())),
    ]);
    Reply::Fields(fields)
}

fn units([refunded, charged, dropped]: [u64; 3]) -> [(&'static str, Reply); 3] {
    let named = [("refunded", refunded), ("charged", charged), ("dropped", dropped)];
    named.map(|(name, units)| (name, Reply::number(units)))
}

fn numbers(standing: &Decision) -> [(&'static str, Reply); 3] {
    [
        ("limit", Reply::number(standing.limit)),
        ("remaining", Reply::number(standing.remaining)),
        ("reset_at_ms", Reply::number(standing.reset_at_ms)),
    ]
}
