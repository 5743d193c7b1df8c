//! `tollgate.v1.RateLimiter`: the same fields as HTTP.

use std::sync::Arc;

use tollgate::{Cost, Decision, Error, OutageMode, Verdict};
use tollgate_proto::tollgate_v1 as pb;
use tollgate_proto::tollgate_v1::rate_limiter_server::RateLimiter;
use tollgate_service::auth::Role;
use tollgate_service::engine::{
    BATCH_MAX, CheckRequest, CheckResponse, Failure, RefundRequest, RefundResponse,
};
use tollgate_service::policy::{DEFAULT_POLICY, LimitName};
use tonic::{Request, Response, Status};

use super::status;
use crate::app::App;
use crate::listen::{Client, Held};

type Reply<T> = Result<Response<T>, Status>;

/// The interface over the engine.
#[derive(Debug)]
pub(super) struct Native(pub(super) Arc<App>);

#[tonic::async_trait]
impl RateLimiter for Native {
    async fn acquire(&self, request: Request<pb::AcquireRequest>) -> Reply<pb::Decision> {
        let request = request.into_inner();
        let response = async { self.0.engine().acquire(check(&request)?).await }.await;
        reply(response.map(|response| decision(&response)))
    }

    async fn acquire_many(
        &self,
        request: Request<pb::AcquireManyRequest>,
    ) -> Reply<pb::AcquireManyResponse> {
        let client = request.extensions().get::<Arc<Client>>().map(Arc::clone);
        let requests = request.into_inner().requests;
        // A batch weighs what it contains, until the client has taken the reply.
        let elements = match client {
            Some(client) if requests.len() <= BATCH_MAX => {
                let closed = || Status::unavailable("the connection is closed");
                Some(client.weigh(requests.len()).await.ok_or_else(closed)?)
            }
            // A batch that is too large is refused below.
            _ => None,
        };
        let checks = requests.iter().map(check).collect();
        let results = self.0.engine().acquire_batch(checks).await;
        let mut response = reply(results.map(|results| pb::AcquireManyResponse {
            decisions: results.into_iter().map(outcome).collect(),
        }))?;
        if let Some(elements) = elements {
            response.extensions_mut().insert::<Held>(Arc::new(elements));
        }
        Ok(response)
    }

    async fn peek(&self, request: Request<pb::AcquireRequest>) -> Reply<pb::Decision> {
        let request = request.into_inner();
        let response = async { self.0.engine().peek(check(&request)?).await }.await;
        reply(response.map(|response| decision(&response)))
    }

    async fn forecast(&self, request: Request<pb::ForecastRequest>) -> Reply<pb::ForecastResponse> {
        let request = request.into_inner();
        let check = CheckRequest::new(policy(&request.policy), &request.key);
        let forecast = self.0.engine().forecast(check).await;
        reply(forecast.map(|forecast| pb::ForecastResponse {
            spendable_now: forecast.spendable_now,
            next_unit_at_ms: forecast.next_unit_at_ms,
            full_at_ms: forecast.full_at_ms,
            limit: forecast.limit,
        }))
    }

    async fn refund(&self, request: Request<pb::RefundRequest>) -> Reply<pb::RefundResponse> {
        // The guard has put it there.
        let role = request.extensions().get().copied().unwrap_or(Role::Caller);
        let request = request.into_inner();
        let refund = async { self.0.engine().refund(refund(&request)?, role).await }.await;
        reply(refund.map(refunded))
    }

    async fn reset(&self, request: Request<pb::ResetRequest>) -> Reply<pb::ResetResponse> {
        let request = request.into_inner();
        let check = CheckRequest::new(policy(&request.policy), &request.key);
        let done = self.0.engine().reset(check).await;
        reply(done.map(|()| pb::ResetResponse {}))
    }
}

fn reply<T>(result: Result<T, Failure>) -> Reply<T> {
    result.map(Response::new).map_err(|failure| status::of(&failure))
}

fn policy(name: &str) -> &str {
    if name.is_empty() { DEFAULT_POLICY } else { name }
}

fn cost(units: Option<u64>) -> Result<Cost, Failure> {
    Ok(units.map_or(Ok(Cost::ONE), Cost::new)?)
}

fn check(request: &pb::AcquireRequest) -> Result<CheckRequest<'_>, Failure> {
    Ok(CheckRequest::new(policy(&request.policy), &request.key)
        .cost(cost(request.cost)?)
        .request_id(request.request_id.as_deref())
        .receipt(request.receipt))
}

fn refund(request: &pb::RefundRequest) -> Result<RefundRequest<'_>, Failure> {
    let Some(receipt) = &request.receipt else {
        let check = CheckRequest::new(policy(&request.policy), &request.key)
            .cost(cost(request.cost)?)
            .request_id(request.request_id.as_deref());
        return Ok(RefundRequest::Units(check));
    };
    let alone = pb::RefundRequest { receipt: request.receipt.clone(), ..Default::default() };
    if *request != alone {
        let accepted = "names all that is given back; accepted: receipt alone, or without it key, \
                        policy, cost, request_id";
        return Err(Error::invalid("receipt", accepted).into());
    }
    Ok(RefundRequest::Receipt(receipt))
}

fn refunded(refund: RefundResponse) -> pb::RefundResponse {
    let limits = refund.limits.into_iter();
    pb::RefundResponse {
        refunded: refund.units,
        limit: refund.standing.limit,
        remaining: refund.standing.remaining,
        reset_at_ms: refund.standing.reset_at_ms,
        policy: refund.policy.to_string(),
        replayed: refund.standing.replayed,
        limits: limits.map(|(name, refunded)| pb::RefundedLimit { name, refunded }).collect(),
    }
}

fn decision(response: &CheckResponse) -> pb::Decision {
    let decision = &response.decision;
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
        policy: response.policy.to_string(),
        binding: decision.binding().map(ToString::to_string),
        degraded: degraded.into(),
        shadow: verdict(response.shadow).into(),
        replayed: decision.replayed,
        receipt: response.receipt.clone(),
        limits: response.standings().map(standing).collect(),
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

fn outcome(result: Result<CheckResponse, Failure>) -> pb::Outcome {
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
