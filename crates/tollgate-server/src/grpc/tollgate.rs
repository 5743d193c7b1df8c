//! `tollgate.v1.RateLimiter`: the same fields as HTTP.

use std::sync::Arc;

use tollgate_proto::tollgate_v1 as pb;
use tollgate_proto::tollgate_v1::rate_limiter_server::RateLimiter;
use tollgate_service::auth::Rights;
use tollgate_service::engine::{BATCH_MAX, Failure};
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};

use super::{decode, encode, status};
use crate::app::App;
use crate::listen::{Client, Held};

type Reply<T> = Result<Response<T>, Status>;

/// The interface over the engine.
#[derive(Debug)]
pub(super) struct Native(pub(super) Arc<App>);

#[tonic::async_trait]
impl RateLimiter for Native {
    async fn acquire(&self, request: Request<pb::AcquireRequest>) -> Reply<pb::Decision> {
        let (rights, request) = (rights_of(&request), request.into_inner());
        let respond = async {
            let listed = decode::charges(&request.charges)?;
            let check = decode::acquire(&request, &listed)?.within(&rights.policies);
            self.0.engine().acquire(check).await
        };
        let response = respond.await;
        reply(response.map(|response| encode::decision(&response)))
    }

    async fn acquire_many(
        &self,
        request: Request<pb::AcquireManyRequest>,
    ) -> Reply<pb::AcquireManyResponse> {
        let client = request.extensions().get::<Arc<Client>>().map(Arc::clone);
        let rights = rights_of(&request);
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
        let listed = requests.iter().map(|request| decode::charges(&request.charges));
        let listed: Vec<_> = listed.collect();
        let checks = requests.iter().zip(&listed).map(|(request, listed)| match listed {
            Ok(listed) => {
                decode::acquire(request, listed).map(|check| check.within(&rights.policies))
            }
            Err(failure) => Err(failure.clone()),
        });
        let checks = checks.collect();
        let results = self.0.engine().acquire_batch(checks).await;
        // A batch takes long: other connections of this thread are read before the next.
        tokio::task::yield_now().await;
        if let Ok(results) = &results {
            self.0.refused_elements("grpc", results);
        }
        let mut response = reply(results.map(|results| pb::AcquireManyResponse {
            decisions: results.into_iter().map(encode::outcome).collect(),
        }))?;
        if let Some(elements) = elements {
            response.extensions_mut().insert::<Held>(Arc::new(elements));
        }
        Ok(response)
    }

    type AcquireStreamStream = BoxStream<pb::Outcome>;

    /// Streams are answered before the router, which gets only those in an encoding, and refuses
    /// them before it calls this.
    async fn acquire_stream(
        &self,
        _: Request<Streaming<pb::AcquireRequest>>,
    ) -> Reply<Self::AcquireStreamStream> {
        Err(Status::unimplemented("accepted: messages that are not compressed"))
    }

    async fn peek(&self, request: Request<pb::AcquireRequest>) -> Reply<pb::Decision> {
        let (rights, request) = (rights_of(&request), request.into_inner());
        let respond = async {
            let listed = decode::charges(&request.charges)?;
            let check = decode::acquire(&request, &listed)?.within(&rights.policies);
            self.0.engine().peek(check).await
        };
        let response = respond.await;
        reply(response.map(|response| encode::decision(&response)))
    }

    async fn forecast(&self, request: Request<pb::ForecastRequest>) -> Reply<pb::ForecastResponse> {
        let rights = rights_of(&request);
        let pb::ForecastRequest { policy, key, charges } = request.into_inner();
        let respond = async {
            let listed = decode::charges(&charges)?;
            let check = decode::keys(&policy, &key, &listed)?.within(&rights.policies);
            self.0.engine().forecast(check).await
        };
        let forecast = respond.await;
        reply(forecast.map(|forecast| pb::ForecastResponse {
            spendable_now: forecast.spendable_now,
            next_unit_at_ms: forecast.next_unit_at_ms,
            full_at_ms: forecast.full_at_ms,
            limit: forecast.limit,
        }))
    }

    async fn limits(&self, request: Request<pb::LimitsRequest>) -> Reply<pb::LimitsResponse> {
        let rights = rights_of(&request);
        let pb::LimitsRequest { policy, key, charges } = request.into_inner();
        let listed = decode::charges(&charges);
        let check = listed.as_ref().map_err(Clone::clone);
        let check = check.and_then(|listed| decode::keys(&policy, &key, listed));
        let check = check.map(|check| check.within(&rights.policies));
        reply(check.and_then(|check| self.0.engine().limits(check)).map(encode::limits))
    }

    async fn refund(&self, request: Request<pb::RefundRequest>) -> Reply<pb::RefundResponse> {
        let (rights, request) = (rights_of(&request), request.into_inner());
        let refund =
            async { self.0.engine().refund(decode::refund(&request)?, &rights).await }.await;
        reply(refund.map(|refund| encode::refunded(&refund)))
    }

    async fn settle(&self, request: Request<pb::SettleRequest>) -> Reply<pb::SettleResponse> {
        let (rights, request) = (rights_of(&request), request.into_inner());
        let settle = async {
            let costs = decode::costs(&request);
            self.0.engine().settle(decode::settle(&request, &costs)?, &rights).await
        };
        let settled = settle.await;
        reply(settled.map(|settled| encode::settled(&settled)))
    }

    async fn reset(&self, request: Request<pb::ResetRequest>) -> Reply<pb::ResetResponse> {
        let rights = rights_of(&request);
        let pb::ResetRequest { policy, key } = request.into_inner();
        let done = self.0.engine().reset(decode::policy(&policy), &key, &rights).await;
        reply(done.map(|()| pb::ResetResponse {}))
    }
}

/// What the client may do, as the guard has found; nothing without it.
pub(super) fn rights_of<T>(request: &Request<T>) -> Rights {
    request.extensions().get().cloned().unwrap_or_else(Rights::none)
}

fn reply<T>(result: Result<T, Failure>) -> Reply<T> {
    result.map(Response::new).map_err(|failure| status::of(&failure))
}
