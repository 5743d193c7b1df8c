//! Responses of the engine: a decision with the name of its policy, or the reason for having none.

use std::fmt;
use std::sync::Arc;

use tollgate_core::{Code, Decision, Error, Name, OutageMode, Verdict};
use tollgate_http::Status;

use crate::policy::{LimitInfo, LimitName};

/// A decision under one or several policies.
#[derive(Clone, Debug)]
pub struct CheckResponse {
    /// The policy of the request; of several that of the binding limit.
    pub policy: Name,
    /// The decision; its `binding` is the name of the limit within the policy.
    pub decision: Decision,
    /// The names of the limits, in the order in which they are charged; none for a limit that is
    /// part of the request.
    pub limits: Arc<[LimitName]>,
    /// Units granted to a request with a range, 0 if it is denied; of several ranges the least.
    pub granted: Option<u64>,
    /// What the policy would have decided without shadow mode, if that differs.
    pub shadow: Option<Verdict>,
    /// What proves the charge, if it was asked for or the request has an id. Absent when nothing
    /// was charged in the store, or the store could not accept it once.
    pub receipt: Option<String>,
    /// Under policies in shadow mode, beside others that allowed.
    pub shadows: Vec<Self>,
}

impl CheckResponse {
    /// How each limit stands, by its name: with the numbers of its own. Nothing for a decision
    /// without the store, and for a limit that is part of the request.
    pub fn standings(&self) -> impl Iterator<Item = (&LimitName, &Decision)> {
        self.own_standings().chain(self.shadows.iter().flat_map(Self::own_standings))
    }

    fn own_standings(&self) -> impl Iterator<Item = (&LimitName, &Decision)> {
        self.limits.iter().zip(self.decision.parts())
    }

    /// The worst verdict that shadow mode replaced.
    #[must_use]
    pub fn shadow_verdict(&self) -> Option<Verdict> {
        self.shadows.iter().map(|one| one.shadow).fold(self.shadow, Option::max)
    }
}

/// What a settlement or a refund did.
#[derive(Clone, Debug)]
pub struct SettleResponse {
    /// The policy of the request; of several that of the first key.
    pub policy: Name,
    /// Each limit, in the order in which they were charged.
    pub limits: Vec<SettledLimit>,
    /// The keys after it: of several limits the numbers are those of the binding one.
    pub standing: Decision,
}

/// What a settlement did under one limit. At most one of the numbers is not 0, but that of what was
/// dropped is beside that of what was charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledLimit {
    /// The limit.
    pub name: LimitName,
    /// Units given back; one that came back in part counts as one.
    pub refunded: u64,
    /// Units charged beyond the cost, also into debt.
    pub charged: u64,
    /// Units that were used, and neither fit under the ceiling nor into the largest debt.
    pub dropped: u64,
}

impl SettleResponse {
    /// The most units that came back under one limit.
    #[must_use]
    pub fn refunded(&self) -> u64 {
        self.most(|limit| limit.refunded)
    }

    /// The most units that were charged beyond the cost under one limit.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.most(|limit| limit.charged)
    }

    /// The most units that were dropped under one limit.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.most(|limit| limit.dropped)
    }

    /// How each limit stands after it.
    pub fn standings(&self) -> impl Iterator<Item = (&SettledLimit, &Decision)> {
        self.limits.iter().zip(self.standing.parts())
    }

    fn most(&self, of: fn(&SettledLimit) -> u64) -> u64 {
        self.limits.iter().map(of).max().unwrap_or(0)
    }
}

/// The limits of a key, or of several.
#[derive(Clone, Debug)]
pub struct LimitsResponse {
    /// Those of each charge of the request, in their order.
    pub charges: Vec<PolicyLimits>,
}

/// The limits of one key.
#[derive(Clone, Debug)]
pub struct PolicyLimits {
    /// The policy.
    pub policy: Name,
    /// Its limits, in the order in which they are charged.
    pub limits: Vec<LimitInfo>,
    /// Whether the policy decides and counts but never denies.
    pub shadow: bool,
}

/// Why no decision was made, and when to try again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The error.
    pub error: Error,
    /// Milliseconds to wait, if trying again can help.
    pub retry_after_ms: Option<u64>,
    /// The policy of the request, once it is found: a name of the configuration, as labels of
    /// metrics need it.
    pub policy: Option<Name>,
}

impl Failure {
    /// Names the policy of the request.
    pub(super) fn under(mut self, policy: &Name) -> Self {
        self.policy = Some(policy.clone());
        self
    }

    /// A denial because of an outage is a failure of the service: 503 and not 429.
    pub(super) fn of_closed(decision: &Decision) -> Option<Self> {
        let closed = decision.degraded == Some(OutageMode::Closed);
        (closed && decision.verdict == Verdict::Denied).then(|| Self {
            error: Error::new(
                Code::StoreUnavailable,
                "the store cannot answer, and the policy refuses without it",
            ),
            retry_after_ms: decision.retry_after_ms,
            policy: None,
        })
    }

    /// The failure of an element of a batch: the field becomes a path below `element`.
    #[must_use]
    pub fn within(mut self, element: &str) -> Self {
        let field = match self.error.field() {
            Some(field) => format!("{element}.{field}"),
            None => element.to_owned(),
        };
        self.error = self.error.with_field(field);
        self
    }
}

/// Whether the service failed, rather than the request being wrong.
pub(super) const fn is_service_failure(code: Code) -> bool {
    Status::of(code).retry_after_ms.is_some()
        || matches!(code, Code::StoreFull | Code::CorruptState)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let retry_after_ms = Status::of(error.code()).retry_after_ms;
        Self { error, retry_after_ms, policy: None }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}
