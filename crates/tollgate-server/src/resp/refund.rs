//! The commands that give back and forget: `TG.REFUND receipt`, or for administrators `TG.REFUND
//! policy key [cost [request_id]]` and `TG.RESET policy key`.

use bytes::Bytes;
use tollgate::{Code, Error, Result};
use tollgate_service::auth::Role;
use tollgate_service::engine::{Failure, RefundRequest, RefundResponse};

use super::arguments::{OwnedCharge, text, usage};
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

/// The key of `TG.RESET policy key`, which only administrators may send.
pub(super) fn parse_reset(arguments: &[Bytes], role: Option<Role>) -> Result<OwnedCharge> {
    let [policy, key] = arguments else { return Err(usage("TG.RESET policy key")) };
    if role < Some(Role::Admin) {
        return Err(Error::new(Code::Forbidden, "needs the token of an administrator"));
    }
    OwnedCharge::of(policy, key, None)
}

/// The reply to `TG.RESET`.
pub(super) fn reset(result: Result<(), Failure>) -> Reply {
    result.map_or_else(|failure| failed(&failure), |()| Reply::Simple("OK"))
}

/// Refunded units, limit, remaining, the instant of the reset, whether the reply repeats an earlier
/// one; and the refunded units of each limit by name.
pub(super) fn reply(result: Result<RefundResponse, Failure>) -> Reply {
    let refund = match result {
        Ok(refund) => refund,
        Err(failure) => return failed(&failure),
    };
    let standing = &refund.standing;
    let limits = refund.limits.into_iter();
    let limits = limits.map(|(name, units)| (Reply::Bulk(name), Reply::number(units)));
    Reply::Fields(vec![
        ("refunded", Reply::number(refund.units)),
        ("limit", Reply::number(standing.limit)),
        ("remaining", Reply::number(standing.remaining)),
        ("reset_at_ms", Reply::number(standing.reset_at_ms)),
        ("replayed", Reply::Truth(standing.replayed)),
        ("limits", Reply::Map(limits.collect())),
    ])
}
