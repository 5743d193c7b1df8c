//! `tollgate.v1.RateLimiter`: the same fields as HTTP.

use std::sync::Arc;

use tollgate::{Cost, OutageMode, Verdict};
use tollgate_proto::tollgate_v1 as pb;
use tollgate_proto::tollgate_v1::rate_limiter_server::RateLimiter;
use tonic::{Request, Response, Status};

use super::status;
use crate::engine::{Answer, Ask, Engine, Failure, accept_batch, unanswered};
use crate::policy::DEFAULT_POLICY;

type Reply<T> = Result<Response<T>, Status>;

/// The interface over the engine.
#[derive(Debug)]
pub(super) struct Native(pub(super) Arc<Engine>);

#[tonic::async_trait]
impl RateLimiter for Native {
    async fn acquire(&self, request: Request<pb::AcquireRequest>) -> Reply<pb::Decision> {
        let request = request.into_inner();
        let answer = match ask(&request) {
            Ok(ask) => self.0.acquire(ask).await,
            Err(failure) => Err(failure),
        };
        reply(answer.map(|answer| decision(&answer)))
    }

    async fn acquire_many(
        &self,
        request: Request<pb::AcquireManyRequest>,
    ) -> Reply<pb::AcquireManyResponse> {
        let requests = request.into_inner().requests;
        accept_batch(requests.len()).map_err(|failure| status::of(&failure))?;
        let asks: Vec<Result<Ask<'_>, Failure>> = requests.iter().map(ask).collect();
        let able: Vec<Ask<'_>> = asks.iter().flatten().copied().collect();
        let mut answers = self.0.acquire_many(&able).await.into_iter();
        let merge = |(index, ask): (usize, Result<Ask<'_>, Failure>)| {
            let answered = |_| answers.next().unwrap_or_else(|| Err(unanswered().into()));
            let answer = ask.and_then(answered);
            outcome(answer.map_err(|failure| failure.within(&format!("requests[{index}]"))))
        };
        let decisions = asks.into_iter().enumerate().map(merge).collect();
        Ok(Response::new(pb::AcquireManyResponse { decisions }))
    }

    async fn peek(&self, request: Request<pb::AcquireRequest>) -> Reply<pb::Decision> {
        let request = request.into_inner();
        let answer = match ask(&request) {
            Ok(ask) => self.0.peek(ask).await,
            Err(failure) => Err(failure),
        };
        reply(answer.map(|answer| decision(&answer)))
    }

    async fn forecast(&self, request: Request<pb::ForecastRequest>) -> Reply<pb::ForecastResponse> {
        let request = request.into_inner();
        let forecast = self.0.forecast(Ask::new(policy(&request.policy), &request.key)).await;
        reply(forecast.map(|forecast| pb::ForecastResponse {
            spendable_now: forecast.spendable_now,
            next_unit_at_ms: forecast.next_unit_at_ms,
            full_at_ms: forecast.full_at_ms,
            limit: forecast.limit,
        }))
    }

    async fn refund(&self, request: Request<pb::RefundRequest>) -> Reply<pb::RefundResponse> {
        let request = request.into_inner();
        let cost = cost(request.cost).map_err(|failure| status::of(&failure))?;
        let ask = Ask::new(policy(&request.policy), &request.key)
            .cost(cost)
            .request_id(request.request_id.as_deref());
        let refund = self.0.refund(ask, request.reset_at_ms).await;
        reply(refund.map(|refund| pb::RefundResponse {
            refunded: refund.units,
            limit: refund.standing.limit,
            remaining: refund.standing.remaining,
            reset_at_ms: refund.standing.reset_at_ms,
            policy: refund.policy.to_string(),
        }))
    }

    async fn reset(&self, request: Request<pb::ResetRequest>) -> Reply<pb::ResetResponse> {
        let request = request.into_inner();
        let done = self.0.reset(Ask::new(policy(&request.policy), &request.key)).await;
        reply(done.map(|()| pb::ResetResponse {}))
    }
}

fn reply<T>(answer: Result<T, Failure>) -> Reply<T> {
    answer.map(Response::new).map_err(|failure| status::of(&failure))
}

fn policy(name: &str) -> &str {
    if name.is_empty() { DEFAULT_POLICY } else { name }
}

fn cost(units: Option<u64>) -> Result<Cost, Failure> {
    Ok(units.map_or(Ok(Cost::ONE), Cost::new)?)
}

fn ask(request: &pb::AcquireRequest) -> Result<Ask<'_>, Failure> {
    Ok(Ask::new(policy(&request.policy), &request.key)
        .cost(cost(request.cost)?)
        .request_id(request.request_id.as_deref()))
}

fn decision(answer: &Answer) -> pb::Decision {
    let decision = &answer.decision;
    let degraded = match decision.degraded {
        Some(OutageMode::Open) => pb::Degraded::Open,
        Some(OutageMode::Closed) => pb::Degraded::Closed,
        Some(OutageMode::Local) => pb::Degraded::Local,
        _ => pb::Degraded::Unspecified,
    };
    pb::Decision {
        allowed: decision.is_allowed(),
        verdict: verdict(Some(decision.verdict)).into(),
        limit: decision.limit,
        remaining: decision.remaining,
        reset_at_ms: decision.reset_at_ms,
        retry_after_ms: decision.retry_after_ms,
        delay_ms: decision.delay_ms,
        policy: answer.policy.to_string(),
        binding: decision.binding.as_ref().map(ToString::to_string),
        degraded: degraded.into(),
        shadow: verdict(answer.shadow).into(),
    }
}

const fn verdict(verdict: Option<Verdict>) -> pb::Verdict {
    match verdict {
        Some(Verdict::Allowed) => pb::Verdict::Allowed,
        Some(Verdict::Denied) => pb::Verdict::Denied,
        Some(Verdict::Never) => pb::Verdict::Never,
        None => pb::Verdict::Unspecified,
    }
}

fn outcome(answer: Result<Answer, Failure>) -> pb::Outcome {
    let outcome = match answer {
        Ok(answer) => pb::outcome::Outcome::Decision(decision(&answer)),
        Err(Failure { error, .. }) => pb::outcome::Outcome::Error(pb::Error {
            code: error.code().to_string(),
            message: error.message().to_owned(),
            field: error.field().map(str::to_owned),
        }),
    };
    pb::Outcome { outcome: Some(outcome) }
}
