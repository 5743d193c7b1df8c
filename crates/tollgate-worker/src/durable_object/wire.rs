//! The messages between a Worker and an object: JSON, with integers and texts only.
//!
//! An admission travels as what it is made of: the parts of each key, the id of each quota, costs
//! and the request id. The object rebuilds the rules of built-in algorithms from their quota ids
//! and runs the steps. States travel in the one text that every distributed store keeps. A Worker
//! and its objects may run different versions for some seconds after a deployment: fields are only
//! ever added, and an unknown call is refused.

use serde::{Deserialize, Serialize};
use tollgate_core::algorithm::built_in;
use tollgate_core::store::{Bounds, Evidence, TimeSource, WhenIdsFull};
use tollgate_core::{
    Admission, Charge, Code, Cost, Error, Limit, Micros, Now, Operation, QuotaId, Receipt,
    RequestId, Result, State,
};

use crate::error::corrupt;

/// A call to an object.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Call {
    /// Decides admissions in order, all at one instant.
    Admit { at: Option<Micros>, admissions: Vec<SentAdmission> },
    /// Reads values.
    Read { names: Vec<String> },
    /// Writes all values if each is still what it is expected to be.
    Swap { writes: Vec<SentSwap> },
    /// Forgets a key.
    Reset { name: String },
}

/// The answer of an object.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Admitted(Vec<Outcome>),
    Values { clock: Micros, values: Vec<Option<String>> },
    Swapped(bool),
    Done,
    Failed(SentError),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SentAdmission {
    pub(crate) charges: Vec<SentCharge>,
    /// The request id, and how long it is kept.
    pub(crate) request_id: Option<(String, Micros)>,
    /// How many request ids the policy of the first charge keeps; the bound of the object if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_ids: Option<usize>,
    /// Whether it refuses more, instead of forgetting the oldest.
    #[serde(default)]
    refuses_ids: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SentCharge {
    prefix: String,
    policy: String,
    subject: String,
    quota: [u64; 4],
    cost: u64,
    operation: SentOperation,
    /// The key lives in another object, which has made the charge already: the text of its state
    /// before, empty for none.
    pub(crate) elsewhere: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SentOperation {
    Take,
    TakeUpTo(u64),
    RefundUntil(Micros),
    RefundNewest,
    /// A final cost that is not 0; without an end that of the newest units.
    Settle {
        until: Option<Micros>,
        to: u64,
        max_debt: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SentSwap {
    pub(crate) name: String,
    /// The value that is expected; absent when there must be none.
    pub(crate) expect: Option<String>,
    pub(crate) value: String,
    pub(crate) keep_until: Micros,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Decided {
        now: Micros,
        before: Vec<Option<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replayed: Option<Vec<[u64; 4]>>,
    },
    Failed(SentError),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SentError {
    code: String,
    message: String,
    field: Option<String>,
    not_sent: bool,
}

impl SentAdmission {
    /// An admission whose charges are all made by one object, if it can rebuild their rules.
    pub(crate) fn of(admission: &Admission<'_>) -> Option<Self> {
        let charges = admission.charges().iter().map(SentCharge::of).collect::<Option<_>>()?;
        let request_id = admission.request_id.map(|request| (request.id.to_owned(), request.keep));
        let bounds = admission.charges().first().map(|first| *first.limit.bounds());
        let bounds = bounds.unwrap_or_default();
        let max_ids = bounds.max_request_ids_if_set();
        Some(Self { charges, request_id, max_ids, refuses_ids: !bounds.forgets_request_ids() })
    }

    /// The limits and subjects of the charges.
    pub(crate) fn limits(&self) -> Result<Vec<Limit>> {
        let bounds = self.bounds();
        self.charges.iter().map(|charge| Ok(charge.limit()?.bounded(bounds))).collect()
    }

    fn bounds(&self) -> Bounds {
        let when_full =
            if self.refuses_ids { WhenIdsFull::Refuse } else { WhenIdsFull::ForgetOldest };
        let bounds = Bounds::new().when_ids_full(when_full);
        match self.max_ids {
            Some(max) => bounds.max_request_ids(max),
            None => bounds,
        }
    }

    /// The charges, under these limits.
    pub(crate) fn charges<'a>(&'a self, limits: &'a [Limit]) -> Result<Vec<Charge<'a>>> {
        limits.iter().zip(&self.charges).map(|(limit, sent)| sent.charge(limit)).collect()
    }

    /// The admission of these charges.
    pub(crate) fn admission<'a>(&'a self, charges: &'a [Charge<'a>]) -> Result<Admission<'a>> {
        let admission = Admission::of(charges);
        Ok(match &self.request_id {
            Some((id, keep)) => {
                let keep = core::time::Duration::from_micros(*keep);
                admission.request_id(RequestId::new(id)?.keep_for(keep))
            }
            None => admission,
        })
    }
}

impl SentCharge {
    pub(crate) fn of(charge: &Charge<'_>) -> Option<Self> {
        let (key, quota_id) = (charge.key(), charge.rule().quota_id());
        is_known(charge).then(|| Self {
            prefix: key.prefix.as_str().to_owned(),
            policy: key.policy.as_str().to_owned(),
            subject: key.subject.to_owned(),
            quota: quota_id.0,
            cost: charge.cost.get(),
            operation: SentOperation::of(charge),
            elsewhere: None,
        })
    }

    fn limit(&self) -> Result<Limit> {
        let rule = built_in(QuotaId(self.quota)).ok_or_else(unknown_algorithm)?;
        let limit = Limit::with_rule(&self.policy, rule)?.with_prefix(&self.prefix)?;
        Ok(match self.operation {
            SentOperation::Settle { max_debt, .. } => limit.max_debt(max_debt),
            _ => limit,
        })
    }

    fn charge<'a>(&'a self, limit: &'a Limit) -> Result<Charge<'a>> {
        let charge = limit.charge(&self.subject).cost(Cost::new(self.cost)?);
        Ok(match self.operation {
            SentOperation::Take => charge,
            SentOperation::TakeUpTo(max) => charge.up_to(Cost::new(max)?),
            SentOperation::RefundUntil(until) => charge.refund(Receipt::Until(until)),
            SentOperation::RefundNewest => charge.refund(Receipt::Newest),
            SentOperation::Settle { until, to, .. } => {
                charge.settle(until.map_or(Receipt::Newest, Receipt::Until), to)
            }
        })
    }
}

impl SentOperation {
    /// Refunds are sent as objects of earlier versions know them.
    fn of(charge: &Charge<'_>) -> Self {
        let until = |receipt| if let Receipt::Until(at) = receipt { Some(at) } else { None };
        match charge.operation {
            Operation::Take => Self::Take,
            Operation::TakeUpTo(max) => Self::TakeUpTo(max.get()),
            Operation::Settle { receipt, to: 0 } => {
                until(receipt).map_or(Self::RefundNewest, Self::RefundUntil)
            }
            Operation::Settle { receipt, to } => {
                Self::Settle { until: until(receipt), to, max_debt: charge.limit.debt_bound() }
            }
        }
    }
}

impl Outcome {
    pub(crate) fn of(outcome: &Result<Evidence>) -> Self {
        match outcome {
            Ok(evidence) => Self::Decided {
                now: evidence.now.reading(),
                before: evidence
                    .before
                    .iter()
                    .map(|state| Some(state.as_ref()?.to_text()))
                    .collect(),
                replayed: evidence
                    .replayed
                    .as_ref()
                    .map(|quota_ids| quota_ids.iter().map(|id| id.0).collect()),
            },
            Err(error) => Self::Failed(SentError::of(error)),
        }
    }

    pub(crate) fn into_evidence(self) -> Result<Evidence> {
        match self {
            Self::Failed(error) => Err(error.into_error()),
            Self::Decided { now, before, replayed } => {
                let state =
                    |text: Option<String>| text.as_deref().map(State::from_text).transpose();
                let before = before.into_iter().map(state).collect::<Result<_>>()?;
                let now = Now::at(now);
                Ok(match replayed {
                    None => Evidence::decided(now, before),
                    Some(ids) => {
                        Evidence::replayed(now, before, ids.into_iter().map(QuotaId).collect())
                    }
                })
            }
        }
    }
}

/// Every code that an object may answer with.
const CODES: [Code; 9] = [
    Code::StoreUnavailable,
    Code::Timeout,
    Code::ConflictExhausted,
    Code::QueueFull,
    Code::StoreFull,
    Code::CorruptState,
    Code::InvalidRequest,
    Code::IdempotencyConflict,
    Code::Unsupported,
];

impl SentError {
    pub(crate) fn of(error: &Error) -> Self {
        Self {
            code: error.code().as_str().to_owned(),
            message: error.message().to_owned(),
            field: error.field().map(str::to_owned),
            not_sent: error.is_not_sent(),
        }
    }

    pub(crate) fn into_error(self) -> Error {
        let code = CODES.into_iter().find(|code| code.as_str() == self.code);
        let error = Error::new(code.unwrap_or(Code::CorruptState), self.message);
        let error = if self.not_sent { error.not_sent() } else { error };
        match self.field {
            Some(field) => error.with_field(field),
            None => error,
        }
    }
}

/// Whether objects know the algorithm of a charge.
pub(crate) fn is_known(charge: &Charge<'_>) -> bool {
    built_in(charge.rule().quota_id()).is_some()
}

pub(crate) fn unknown_algorithm() -> Error {
    let message = "the object does not know this algorithm; deploy both in one version";
    Error::new(Code::Unsupported, message).not_sent()
}

/// The time source of a call.
pub(crate) const fn time_source(at: Option<Micros>) -> TimeSource {
    match at {
        Some(reading) => TimeSource::Given(reading),
        None => TimeSource::StoreClock,
    }
}

/// The text of a message.
pub(crate) fn to_text(message: &impl Serialize) -> Result<String> {
    serde_json::to_string(message).map_err(|_| corrupt("a message to an object"))
}

/// The message of a text.
pub(crate) fn from_text<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).map_err(|_| corrupt("a message of an object"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_core::Quota;

    #[test]
    fn an_admission_is_the_same_after_the_journey() {
        let limit = Limit::gcra("api", Quota::per_minute(5)).unwrap().with_prefix("edge").unwrap();
        let bounds = Bounds::new().max_request_ids(7).when_ids_full(WhenIdsFull::Refuse);
        let limit = limit.bounded(bounds);
        let two = Cost::new(2).unwrap();
        let charges = [
            limit.charge("a\0\u{1F600}\"{}").cost(two),
            limit.charge("b").up_to(two),
            limit.charge("b").refund(Receipt::Newest),
            limit.charge("b").refund(Receipt::Until(u64::MAX)),
            limit.charge("b").settle(Receipt::Until(7), u64::MAX),
            limit.charge("b").settle(Receipt::Newest, 1),
        ];
        let id = RequestId::new("id").unwrap();
        let sent = SentAdmission::of(&Admission::of(&charges).request_id(id)).unwrap();
        let text = to_text(&Call::Admit { at: Some(7), admissions: vec![sent] }).unwrap();
        let Call::Admit { at, admissions } = from_text(&text).unwrap() else { panic!("{text}") };
        let [sent] = &*admissions else { panic!("{text}") };
        let limits = sent.limits().unwrap();
        let received = sent.charges(&limits).unwrap();
        let admission = sent.admission(&received).unwrap();
        assert_eq!(time_source(at), TimeSource::Given(7));
        assert_eq!(admission.request_id, Some(id));
        assert_eq!(admission.payload(), Admission::of(&charges).payload());
        for (one, other) in charges.iter().zip(admission.charges()) {
            assert_eq!(one.key(), other.key());
            assert_eq!(one.rule().quota_id(), other.rule().quota_id());
            assert_eq!((one.cost, one.operation), (other.cost, other.operation));
            assert_eq!(one.limit.bounds(), other.limit.bounds());
        }
    }

    #[test]
    fn evidence_and_errors_are_the_same_after_the_journey() {
        let id = QuotaId([1, 2, 3, u64::MAX]);
        let state = State::new(id, vec![4, 5].into());
        let outcomes = [
            Ok(Evidence::decided(Now::at(9), vec![Some(state.clone()), None])),
            Ok(Evidence::replayed(Now::at(9), vec![Some(state)], vec![id])),
        ];
        for outcome in outcomes {
            let text = to_text(&Outcome::of(&outcome)).unwrap();
            let received: Outcome = from_text(&text).unwrap();
            assert_eq!(received.into_evidence().unwrap(), outcome.unwrap(), "{text}");
        }
        for code in CODES {
            let error = Error::new(code, "why").with_field("field").not_sent();
            let received = SentError::of(&error).into_error();
            assert_eq!(received.to_string(), error.to_string());
            assert!(received.is_not_sent());
        }
    }
}
