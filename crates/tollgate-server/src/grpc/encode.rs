//! From responses of the engine to messages of `tollgate.v1`.

use tollgate::{Cost, Decision, OutageMode, Verdict};
use tollgate_proto::tollgate_v1 as pb;
use tollgate_service::engine::{
    CheckResponse, Failure, LimitsResponse, PolicyLimits, SettleResponse, SettledLimit,
};
use tollgate_service::policy::{LimitInfo, LimitName};

/// The limits of a request in numbers.
pub(super) fn limits(LimitsResponse { charges }: LimitsResponse) -> pb::LimitsResponse {
    let policy = charges.first().map_or_else(String::new, |charge| charge.policy.to_string());
    let shadow = charges.iter().all(|charge| charge.shadow);
    let each = |PolicyLimits { policy, limits, shadow }: PolicyLimits| {
        limits.into_iter().map(move |info| limit(policy.to_string(), shadow, info))
    };
    pb::LimitsResponse { policy, shadow, limits: charges.into_iter().flat_map(each).collect() }
}

fn limit(policy: String, shadow: bool, info: LimitInfo) -> pb::Limit {
    pb::Limit {
        name: info.name.to_string(),
        policy,
        shadow,
        algorithm: info.algorithm,
        limit: info.limit,
        units: info.units,
        period_us: info.period_us,
        renewal: info.renewal.to_owned(),
        buckets: info.buckets,
        anchor: info.anchor.map(str::to_owned),
        max_debt: info.max_debt,
    }
}

/// What a refund gave back.
pub(super) fn refunded(refund: &SettleResponse) -> pb::RefundResponse {
    let limit = |limit: &SettledLimit| pb::RefundedLimit {
        name: limit.name.name.to_string(),
        policy: limit.name.policy.to_string(),
        refunded: limit.refunded,
    };
    pb::RefundResponse {
        refunded: refund.refunded(),
        limit: refund.standing.limit,
        remaining: refund.standing.remaining,
        reset_at_ms: refund.standing.reset_at_ms,
        policy: refund.policy.to_string(),
        replayed: refund.standing.replayed,
        limits: refund.limits.iter().map(limit).collect(),
    }
}

/// What a settlement did.
pub(super) fn settled(settled: &SettleResponse) -> pb::SettleResponse {
    let limit = |(limit, own): (&SettledLimit, &Decision)| pb::SettledLimit {
        name: limit.name.name.to_string(),
        policy: limit.name.policy.to_string(),
        refunded: limit.refunded,
        charged: limit.charged,
        dropped: limit.dropped,
        limit: own.limit,
        remaining: own.remaining,
        reset_at_ms: own.reset_at_ms,
    };
    let standing = &settled.standing;
    pb::SettleResponse {
        refunded: settled.refunded(),
        charged: settled.charged(),
        dropped: settled.dropped(),
        limit: standing.limit,
        remaining: standing.remaining,
        reset_at_ms: standing.reset_at_ms,
        policy: settled.policy.to_string(),
        replayed: standing.replayed,
        limits: settled.standings().map(limit).collect(),
    }
}

pub(super) fn decision(response: &CheckResponse) -> pb::Decision {
    let decision = &response.decision;
    pb::Decision {
        allowed: decision.is_allowed(),
        verdict: verdict(Some(decision.verdict)).into(),
        limit: decision.limit,
        remaining: decision.remaining,
        reset_at_ms: decision.reset_at_ms,
        retry_after_ms: decision.retry_after_ms,
        delay_ms: decision.delay_ms,
        policy: response.policy.to_string(),
        binding: decision.binding().map(ToString::to_string),
        degraded: degraded(decision.degraded).into(),
        shadow: verdict(response.shadow_verdict()).into(),
        replayed: decision.replayed,
        receipt: response.receipt.clone(),
        limits: response.standings().map(standing).collect(),
        granted: response.granted,
    }
}

fn standing((limit, own): (&LimitName, &Decision)) -> pb::LimitStanding {
    pb::LimitStanding {
        name: limit.name.to_string(),
        policy: limit.policy.to_string(),
        limit: own.limit,
        remaining: own.remaining,
        reset_at_ms: own.reset_at_ms,
        retry_after_ms: own.retry_after_ms,
        granted: own.granted().map(Cost::get),
    }
}

pub(super) const fn degraded(mode: Option<OutageMode>) -> pb::Degraded {
    match mode {
        Some(OutageMode::Open) => pb::Degraded::Open,
        Some(OutageMode::Closed) => pb::Degraded::Closed,
        Some(OutageMode::Local) => pb::Degraded::Local,
        _ => pb::Degraded::Unspecified,
    }
}

pub(super) const fn verdict(verdict: Option<Verdict>) -> pb::Verdict {
    match verdict {
        Some(Verdict::Allowed) => pb::Verdict::Allowed,
        Some(Verdict::Denied) => pb::Verdict::Denied,
        Some(Verdict::Never) => pb::Verdict::Never,
        None => pb::Verdict::Unspecified,
    }
}

pub(super) fn outcome(result: Result<CheckResponse, Failure>) -> pb::Outcome {
    let outcome = match result {
        Ok(response) => pb::outcome::Outcome::Decision(decision(&response)),
        Err(Failure { error, .. }) => pb::outcome::Outcome::Error(pb::Error {
            code: error.code().to_string(),
            message: error.message().to_owned(),
            field: error.field().map(str::to_owned),
        }),
    };
    pb::Outcome { outcome: Some(outcome) }
}
