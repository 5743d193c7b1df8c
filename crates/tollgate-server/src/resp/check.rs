//! The commands that charge: `CL.THROTTLE` and `TG.ACQUIRE`.
//!
//! `CL.THROTTLE` replies as redis-cell does: five integers, whole seconds rounded up, burst + 1 as
//! the limit; a quantity of 0 peeks; the wait is −1 when the command is allowed, and when it never
//! can be.

use std::time::Duration;

use bytes::Bytes;
use tollgate::{Code, Cost, Error, Limit, Quota, Result, Verdict};
use tollgate_http::Status;
use tollgate_service::Policies;
use tollgate_service::engine::{CheckRequest, CheckResponse, Failure, Target};

use super::reply::Reply;

/// A parsed command.
#[derive(Debug)]
pub(super) struct CheckCommand {
    target: OwnedTarget,
    key: String,
    cost: Cost,
    request_id: Option<String>,
    receipt: bool,
    /// Whether it does not charge.
    pub(super) peek: bool,
}

#[derive(Debug)]
enum OwnedTarget {
    Policy(String),
    Limit(Box<Limit>),
}

impl CheckCommand {
    /// `CL.THROTTLE key max_burst count period [quantity]`, under a limit of its own.
    pub(super) fn throttle(arguments: &[Bytes], policies: &Policies) -> Result<Self> {
        let (key, burst, count, period, quantity) = match arguments {
            [key, burst, count, period] => (key, burst, count, period, None),
            [key, burst, count, period, quantity] => (key, burst, count, period, Some(quantity)),
            _ => {
                let usage = "CL.THROTTLE key max_burst count period [quantity]";
                return Err(Error::invalid("arguments", format!("accepted: {usage}")));
            }
        };
        let burst = whole("max_burst", burst)?.saturating_add(1);
        let period = Duration::from_secs(whole("period", period)?);
        let quota = Quota::new(whole("count", count)?, period);
        let limit = policies.ad_hoc_limit(quota, burst).map_err(bad_argument)?;
        let units = quantity.map_or(Ok(1), |units| whole("quantity", units))?;
        Ok(Self {
            target: OwnedTarget::Limit(Box::new(limit)),
            key: text("key", key)?,
            cost: if units == 0 { Cost::ONE } else { Cost::new(units)? },
            request_id: None,
            receipt: false,
            peek: units == 0,
        })
    }

    /// `TG.ACQUIRE policy key [cost [request_id]] [RECEIPT]`.
    pub(super) fn acquire(arguments: &[Bytes]) -> Result<Self> {
        // A policy or a key may have that name.
        let (arguments, receipt) = match arguments {
            [rest @ .., last] if rest.len() >= 2 && last.eq_ignore_ascii_case(b"RECEIPT") => {
                (rest, true)
            }
            all => (all, false),
        };
        let units = Self::units(arguments)?;
        let usage = "accepted: TG.ACQUIRE policy key [cost [request_id]] [RECEIPT]";
        let command = units.ok_or_else(|| Error::invalid("arguments", usage))?;
        Ok(Self { receipt, ..command })
    }

    /// `policy key [cost [request_id]]`; `None` for more or fewer words.
    pub(super) fn units(arguments: &[Bytes]) -> Result<Option<Self>> {
        let (policy, key, cost, id) = match arguments {
            [policy, key] => (policy, key, None, None),
            [policy, key, cost] => (policy, key, Some(cost), None),
            [policy, key, cost, id] => (policy, key, Some(cost), Some(id)),
            _ => return Ok(None),
        };
        let cost = cost.map(|units| whole("cost", units)).transpose()?;
        Ok(Some(Self {
            target: OwnedTarget::Policy(text("policy", policy)?),
            key: text("key", key)?,
            cost: cost.map_or(Ok(Cost::ONE), Cost::new)?,
            request_id: id.map(|id| text("request_id", id)).transpose()?,
            receipt: false,
            peek: false,
        }))
    }

    /// The request of the engine.
    pub(super) fn request(&self) -> CheckRequest<'_> {
        CheckRequest {
            target: match &self.target {
                OwnedTarget::Policy(name) => Target::Policy(name),
                OwnedTarget::Limit(limit) => Target::Limit(limit),
            },
            key: &self.key,
            cost: self.cost,
            request_id: self.request_id.as_deref(),
            receipt: self.receipt,
        }
    }

    /// The reply to the command.
    pub(super) fn reply(&self, result: Result<CheckResponse, Failure>, now_ms: u64) -> Reply {
        match (result, &self.target) {
            (Err(failure), _) => failed(&failure),
            (Ok(response), OwnedTarget::Policy(_)) => {
                acquired(&response, self.receipt || self.request_id.is_some())
            }
            (Ok(response), OwnedTarget::Limit(_)) => throttled(&response, self.peek, now_ms),
        }
    }
}

/// Limited or not, limit, remaining, seconds to wait, seconds until the key is full.
fn throttled(response: &CheckResponse, peek: bool, now_ms: u64) -> Reply {
    let decision = &response.decision;
    // A quantity of 0 is always allowed.
    let limited = !peek && !decision.is_allowed();
    let wait = match decision.verdict {
        Verdict::Denied if limited => int(decision.retry_after_ms.unwrap_or(0).div_ceil(1_000)),
        _ => -1,
    };
    let reset_after = decision.reset_at_ms.saturating_sub(now_ms).div_ceil(1_000);
    let (limit, remaining) = (int(decision.limit), int(decision.remaining));
    integers([i64::from(limited), limit, remaining, wait, int(reset_after)])
}

/// Allowed or not, limit, remaining, milliseconds to wait, the instant of the reset; to a command
/// with a request id or `RECEIPT`, also whether the reply repeats an earlier one, and the receipt.
fn acquired(response: &CheckResponse, is_long: bool) -> Reply {
    let decision = &response.decision;
    let numbers = [
        i64::from(decision.is_allowed()),
        int(decision.limit),
        int(decision.remaining),
        decision.retry_after_ms.map_or(-1, int),
        int(decision.reset_at_ms),
    ];
    let mut elements: Vec<Reply> = numbers.into_iter().map(Reply::Int).collect();
    if is_long {
        elements.push(Reply::Int(i64::from(decision.replayed)));
        elements.push(response.receipt.clone().map_or(Reply::Null, Reply::Bulk));
    }
    Reply::Array(elements)
}

/// The error of a failure.
pub(super) fn failed(Failure { error, .. }: &Failure) -> Reply {
    Reply::error(Status::of(error.code()).resp, &error.to_string())
}

/// The error of a quota, as one of the arguments that it was made from.
fn bad_argument(error: Error) -> Error {
    if error.code() == Code::Unsupported {
        return error;
    }
    let argument = match error.field() {
        Some("limit") => "count",
        Some("burst") => "max_burst + 1",
        Some("period") => "period",
        _ => "arguments",
    };
    Error::invalid(argument, error.message())
}

fn integers(numbers: impl IntoIterator<Item = i64>) -> Reply {
    Reply::Array(numbers.into_iter().map(Reply::Int).collect())
}

pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn text(field: &'static str, word: &Bytes) -> Result<String> {
    let utf8 = std::str::from_utf8(word).map(str::to_owned);
    utf8.map_err(|_| Error::invalid(field, "is not UTF-8"))
}

fn whole(field: &'static str, word: &Bytes) -> Result<u64> {
    let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(word).ok().filter(|_| digits);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        Error::invalid(
            field,
            "is no number that fits; accepted: a whole number that is not negative",
        )
    })
}
