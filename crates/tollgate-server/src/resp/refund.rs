//! The command that gives back: `TG.REFUND receipt`, or for administrators
//! `TG.REFUND policy key [cost [request_id]]`.

use bytes::Bytes;
use tollgate::{Error, Result};
use tollgate_service::engine::{Failure, RefundRequest, RefundResponse};

use super::check::{CheckCommand, failed, int, text};
use super::reply::Reply;

/// A parsed command.
#[derive(Debug)]
pub(super) enum RefundCommand {
    Receipt(String),
    Units(CheckCommand),
}

impl RefundCommand {
    pub(super) fn parse(arguments: &[Bytes]) -> Result<Self> {
        if let [receipt] = arguments {
            return text("receipt", receipt).map(Self::Receipt);
        }
        let usage = "accepted: TG.REFUND receipt, or TG.REFUND policy key [cost [request_id]]";
        let units = CheckCommand::units(arguments)?.map(Self::Units);
        units.ok_or_else(|| Error::invalid("arguments", usage))
    }

    /// The request of the engine.
    pub(super) fn request(&self) -> RefundRequest<'_> {
        match self {
            Self::Receipt(text) => RefundRequest::Receipt(text),
            Self::Units(command) => RefundRequest::Units(command.request()),
        }
    }
}

/// Refunded units, limit, remaining, the instant of the reset, whether the reply repeats an earlier
/// one; and the refunded units of each limit by name.
pub(super) fn reply(result: Result<RefundResponse, Failure>) -> Reply {
    let refund = match result {
        Ok(refund) => refund,
        Err(failure) => return failed(&failure),
    };
    let standing = &refund.standing;
    let numbers = [refund.units, standing.limit, standing.remaining, standing.reset_at_ms];
    let mut elements: Vec<Reply> = numbers.map(|number| Reply::Int(int(number))).into();
    elements.push(Reply::Int(i64::from(standing.replayed)));
    let limits = refund.limits.into_iter();
    let limits = limits.map(|(name, units)| (Reply::Bulk(name), Reply::Int(int(units))));
    elements.push(Reply::Map(limits.collect()));
    Reply::Array(elements)
}
