//! The commands that decide: `CL.THROTTLE`, `TG.ACQUIRE`, `TG.ACQUIREALL`, `TG.PEEK`,
//! `TG.FORECAST`.
//!
//! `CL.THROTTLE` replies as redis-cell does: five integers, whole seconds rounded up, burst + 1 as
//! the limit; a quantity of 0 peeks; the wait is −1 when the command is allowed, and when it never
//! can be. It has one algorithm, which delays nothing.

use std::time::Duration;

use bytes::Bytes;
use tollgate::{Code, Cost, Decision, Error, Forecast, Limit, Quota, Result, Verdict};
use tollgate_http::Status;
use tollgate_service::Policies;
use tollgate_service::engine::{CheckRequest, CheckResponse, Failure, RequestedCharge, Target};
use tollgate_service::policy::{LIMITS_MAX, LimitName};

use super::arguments::{Options, OwnedCharge, text, usage, whole};
use super::reply::{Reply, Version};

/// A parsed command.
#[derive(Debug)]
pub(super) struct CheckCommand {
    charges: Charges,
    request_id: Option<String>,
    receipt: bool,
    /// Whether the reply has every field, also in version 2.
    full: bool,
    /// Whether it does not charge.
    pub(super) peek: bool,
}

#[derive(Debug)]
enum Charges {
    One(OwnedCharge),
    Listed(Vec<OwnedCharge>),
    /// Under a limit of the command itself.
    AdHoc(Box<(Limit, String, Cost)>),
}

impl CheckCommand {
    const fn of(charges: Charges) -> Self {
        Self { charges, request_id: None, receipt: false, full: true, peek: false }
    }

    /// `CL.THROTTLE key max_burst count period [quantity]`, under a limit of its own.
    pub(super) fn throttle(arguments: &[Bytes], policies: &Policies) -> Result<Self> {
        let (key, burst, count, period, quantity) = match arguments {
            [key, burst, count, period] => (key, burst, count, period, None),
            [key, burst, count, period, quantity] => (key, burst, count, period, Some(quantity)),
            _ => return Err(usage("CL.THROTTLE key max_burst count period [quantity]")),
        };
        let burst = whole("max_burst", burst)?.saturating_add(1);
        let period = Duration::from_secs(whole("period", period)?);
        let quota = Quota::new(whole("count", count)?, period);
        let limit = policies.ad_hoc_limit(quota, burst).map_err(bad_argument)?;
        let units = quantity.map_or(Ok(1), |units| whole("quantity", units))?;
        let cost = if units == 0 { Cost::ONE } else { Cost::new(units)? };
        let charges = Charges::AdHoc(Box::new((limit, text("key", key)?, cost)));
        Ok(Self { peek: units == 0, ..Self::of(charges) })
    }

    /// `TG.ACQUIRE policy key [cost [request_id]] [RECEIPT] [FULL]`.
    pub(super) fn acquire(arguments: &[Bytes]) -> Result<Self> {
        let (words, Options { receipt, full }) = Options::take(arguments, 2);
        let (charge, id) = match words {
            [policy, key] => (OwnedCharge::of(policy, key, None)?, None),
            [policy, key, cost] => (OwnedCharge::of(policy, key, Some(cost))?, None),
            [policy, key, cost, id] => (OwnedCharge::of(policy, key, Some(cost))?, Some(id)),
            _ => {
                let form = "TG.ACQUIRE policy key [cost [request_id]] [RECEIPT] [FULL]";
                return Err(usage(form));
            }
        };
        let request_id = id.map(|id| text("request_id", id)).transpose()?;
        let full = full || charge.is_range();
        Ok(Self { request_id, receipt, full, ..Self::of(Charges::One(charge)) })
    }

    /// `TG.ACQUIREALL n policy key cost [policy key cost ...] [request_id] [RECEIPT]`, with n
    /// charges.
    pub(super) fn acquire_all(arguments: &[Bytes]) -> Result<Self> {
        let form = "TG.ACQUIREALL n policy key cost [policy key cost ...] [request_id] [RECEIPT]";
        let [count, words @ ..] = arguments else { return Err(usage(form)) };
        let count = usize::try_from(whole("n", count)?).unwrap_or(usize::MAX);
        if !(1..=LIMITS_MAX).contains(&count) {
            let accepted = format!("is out of range; accepted: 1 to {LIMITS_MAX}");
            return Err(Error::invalid("n", accepted));
        }
        let (words, options) = Options::take(words, 3 * count);
        let (charges, id) = match words.split_at_checked(3 * count) {
            Some((charges, [])) => (charges, None),
            Some((charges, [id])) => (charges, Some(id)),
            _ => return Err(usage(form)),
        };
        let charge = |(index, words): (usize, &[Bytes])| {
            let [policy, key, cost] = words else { return Err(usage(form)) };
            let charge = OwnedCharge::of(policy, key, Some(cost));
            charge.map_err(|error| Failure::from(error).within(&format!("charges[{index}]")).error)
        };
        let charges = charges.chunks(3).enumerate().map(charge).collect::<Result<_>>()?;
        let request_id = id.map(|id| text("request_id", id)).transpose()?;
        let receipt = options.receipt;
        Ok(Self { request_id, receipt, ..Self::of(Charges::Listed(charges)) })
    }

    /// `TG.PEEK policy key [cost]`.
    pub(super) fn peek(arguments: &[Bytes]) -> Result<Self> {
        let charge = match arguments {
            [policy, key] => OwnedCharge::of(policy, key, None)?,
            [policy, key, cost] => OwnedCharge::of(policy, key, Some(cost))?,
            _ => return Err(usage("TG.PEEK policy key [cost]")),
        };
        Ok(Self { peek: true, ..Self::of(Charges::One(charge)) })
    }

    /// `TG.FORECAST policy key [policy key ...]`.
    pub(super) fn forecast(arguments: &[Bytes]) -> Result<Self> {
        let form = "TG.FORECAST policy key [policy key ...]";
        let pair = |words: &[Bytes]| match words {
            [policy, key] => OwnedCharge::of(policy, key, None),
            _ => Err(usage(form)),
        };
        let mut charges = arguments.chunks(2).map(pair).collect::<Result<Vec<_>>>()?;
        match (charges.pop(), charges.is_empty()) {
            (None, _) => Err(usage(form)),
            (Some(one), true) => Ok(Self::of(Charges::One(one))),
            (Some(last), false) => {
                charges.push(last);
                Ok(Self::of(Charges::Listed(charges)))
            }
        }
    }

    /// The elements of a command with several charges, for [`CheckCommand::request`].
    pub(super) fn listed(&self) -> Vec<RequestedCharge<'_>> {
        match &self.charges {
            Charges::Listed(charges) => charges.iter().map(OwnedCharge::requested).collect(),
            Charges::One(_) | Charges::AdHoc(_) => Vec::new(),
        }
    }

    /// The request of the engine, with the charges that [`CheckCommand::listed`] has made.
    pub(super) fn request<'r>(
        &'r self,
        listed: &'r [RequestedCharge<'r>],
        version: Version,
    ) -> CheckRequest<'r> {
        let request = match &self.charges {
            Charges::One(charge) => CheckRequest::one(charge.requested()),
            Charges::Listed(_) => CheckRequest::listed(listed),
            Charges::AdHoc(ad_hoc) => {
                let (limit, key, cost) = &**ad_hoc;
                CheckRequest::one(RequestedCharge::under(Target::Limit(limit), key).cost(*cost))
            }
        };
        let request = request.request_id(self.request_id.as_deref()).receipt(self.receipt);
        request.carries_delay(self.is_full(version))
    }

    /// Whether the reply has every field.
    fn is_full(&self, version: Version) -> bool {
        self.full || version == Version::Three
    }

    /// The reply to the command.
    pub(super) fn reply(
        &self,
        result: Result<CheckResponse, Failure>,
        version: Version,
        now_ms: u64,
    ) -> Reply {
        match (result, &self.charges) {
            (Err(failure), _) => failed(&failure),
            (Ok(response), Charges::AdHoc(_)) => throttled(&response, self.peek, now_ms),
            (Ok(response), _) if self.is_full(version) => acquired(&response),
            (Ok(response), _) => {
                let is_long = self.receipt || self.request_id.is_some();
                let fields = first_fields(&response, is_long);
                Reply::Fields(fields)
            }
        }
    }
}

/// Limited or not, limit, remaining, seconds to wait, seconds until the key is full.
fn throttled(response: &CheckResponse, peek: bool, now_ms: u64) -> Reply {
    let decision = &response.decision;
    // A quantity of 0 is always allowed.
    let limited = !peek && !decision.is_allowed();
    let wait_s = match decision.verdict {
        Verdict::Denied if limited => Some(decision.retry_after_ms.unwrap_or(0).div_ceil(1_000)),
        _ => None,
    };
    let reset_after_s = decision.reset_at_ms.saturating_sub(now_ms).div_ceil(1_000);
    let (limit, remaining) = (Reply::number(decision.limit), Reply::number(decision.remaining));
    let limited = Reply::Int(i64::from(limited));
    let full = Reply::number(reset_after_s);
    Reply::Array(vec![limited, limit, remaining, Reply::wait(wait_s), full])
}

/// The first fields of a decision; with the last of them, seven instead of five. They have a place
/// for neither a delay nor the number of units granted.
fn first_fields(response: &CheckResponse, is_long: bool) -> Vec<(&'static str, Reply)> {
    let decision = &response.decision;
    let mut fields = Vec::with_capacity(15);
    fields.extend([
        ("allowed", Reply::Truth(decision.is_allowed())),
        ("limit", Reply::number(decision.limit)),
        ("remaining", Reply::number(decision.remaining)),
        ("retry_after_ms", Reply::wait(decision.retry_after_ms)),
        ("reset_at_ms", Reply::number(decision.reset_at_ms)),
    ]);
    if is_long {
        let receipt = response.receipt.clone().into();
        fields.extend([("replayed", Reply::Truth(decision.replayed)), ("receipt", receipt)]);
    }
    fields
}

/// The fields of a decision. In version 2 they are found by their places: new ones come last.
fn acquired(response: &CheckResponse) -> Reply {
    let (decision, shadow) = (&response.decision, response.shadow_verdict());
    let mut fields = first_fields(response, true);
    fields.extend([
        ("delay_ms", Reply::number(decision.delay_ms)),
        ("granted", response.granted.into()),
        ("verdict", decision.verdict.as_str().into()),
        ("policy", (&response.policy).into()),
        ("binding", decision.binding().into()),
        ("degraded", decision.degraded.map(|mode| mode.as_str()).into()),
        ("shadow", shadow.map(Verdict::as_str).into()),
        ("limits", Reply::Array(response.standings().map(standing).collect())),
    ]);
    Reply::Fields(fields)
}

/// How one limit stands.
fn standing((limit, own): (&LimitName, &Decision)) -> Reply {
    Reply::Fields(vec![
        ("name", (&limit.name).into()),
        ("policy", (&limit.policy).into()),
        ("limit", Reply::number(own.limit)),
        ("remaining", Reply::number(own.remaining)),
        ("retry_after_ms", Reply::wait(own.retry_after_ms)),
        ("reset_at_ms", Reply::number(own.reset_at_ms)),
        ("granted", own.granted().map(Cost::get).into()),
    ])
}

/// The fields of a forecast.
pub(super) fn forecasted(result: Result<Forecast, Failure>) -> Reply {
    match result {
        Err(failure) => failed(&failure),
        Ok(Forecast { spendable_now, next_unit_at_ms, full_at_ms, limit, .. }) => {
            Reply::Fields(vec![
                ("spendable_now", Reply::number(spendable_now)),
                ("next_unit_at_ms", next_unit_at_ms.into()),
                ("full_at_ms", Reply::number(full_at_ms)),
                ("limit", Reply::number(limit)),
            ])
        }
    }
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
