//! One function per route: decode, ask, encode.

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use tollgate::Error;

use super::decode::{Fields, Request, batch};
use super::{BODY_MAX_BYTES, BODY_WITHIN, OPENAPI, reply};
use crate::engine::{Answer, Engine, Failure, unanswered};

pub(super) async fn acquire(State(engine): State<Arc<Engine>>, body: Body) -> Response {
    ask(body, async |body| {
        let request = Request::of_body(&body, &Request::FIELDS)?;
        Ok(reply::decision(&engine.acquire(request.ask()).await?))
    })
    .await
}

pub(super) async fn peek(State(engine): State<Arc<Engine>>, body: Body) -> Response {
    ask(body, async |body| {
        let request = Request::of_body(&body, &Request::FIELDS)?;
        Ok(reply::decision(&engine.peek(request.ask()).await?))
    })
    .await
}

pub(super) async fn acquire_many(State(engine): State<Arc<Engine>>, body: Body) -> Response {
    ask(body, async |body| {
        let requests = batch(&body)?;
        let asks: Vec<_> = requests.iter().flatten().map(Request::ask).collect();
        let mut answers = engine.acquire_many(&asks).await.into_iter();
        let merge = |(index, request): (usize, Result<Request, Error>)| {
            let answer: Result<Answer, Failure> = match request {
                Ok(_) => answers.next().unwrap_or_else(|| Err(unanswered().into())),
                Err(error) => Err(error.into()),
            };
            answer.map_err(|failure| failure.within(&format!("requests[{index}]")))
        };
        let merged: Vec<_> = requests.into_iter().enumerate().map(merge).collect();
        Ok(reply::decisions(&merged))
    })
    .await
}

pub(super) async fn forecast(State(engine): State<Arc<Engine>>, body: Body) -> Response {
    ask(body, async |body| {
        let request = Request::of_body(&body, &Request::KEY_FIELDS)?;
        Ok(reply::forecast(&engine.forecast(request.ask()).await?))
    })
    .await
}

pub(super) async fn limits(State(engine): State<Arc<Engine>>, body: Body) -> Response {
    ask(body, async |body| {
        let request = Request::of_body(&body, &Request::KEY_FIELDS)?;
        Ok(reply::limits(&engine.limits(request.ask())?))
    })
    .await
}

pub(super) async fn refund(State(engine): State<Arc<Engine>>, body: Body) -> Response {
    ask(body, async |body| {
        const FIELDS: [&str; 5] = ["policy", "key", "cost", "request_id", "reset_at_ms"];
        let mut fields = Fields::of_json(&body, &FIELDS)?;
        let receipt = fields.whole("reset_at_ms")?;
        let request = Request::of(&mut fields)?;
        Ok(reply::refund(&engine.refund(request.ask(), receipt).await?))
    })
    .await
}

pub(super) async fn reset(State(engine): State<Arc<Engine>>, body: Body) -> Response {
    ask(body, async |body| {
        let request = Request::of_body(&body, &Request::KEY_FIELDS)?;
        engine.reset(request.ask()).await?;
        Ok(reply::reset())
    })
    .await
}

/// The process runs, whatever the store does.
pub(super) async fn healthz() -> Response {
    "ok\n".into_response()
}

/// Whether decisions can be made, and what they are worth.
pub(super) async fn readyz(State(engine): State<Arc<Engine>>) -> Response {
    match engine.ready().await {
        Ok(()) if engine.capability().in_process => {
            "ready: limits are per process\n".into_response()
        }
        Ok(()) => "ready\n".into_response(),
        Err(failure) => reply::failure(&failure),
    }
}

/// What is counted, for Prometheus.
pub(super) async fn metrics(State(engine): State<Arc<Engine>>) -> Response {
    const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, KIND)], engine.metrics_text()).into_response()
}

pub(super) async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// Reads a body within its bounds and answers it; every failure becomes a problem.
async fn ask(body: Body, answer: impl AsyncFnOnce(Bytes) -> Result<Response, Failure>) -> Response {
    let body = match tokio::time::timeout(BODY_WITHIN, to_bytes(body, BODY_MAX_BYTES)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let accepted = format!("cannot be read; accepted: up to {BODY_MAX_BYTES} bytes");
            let failure = Error::invalid("body", accepted).into();
            return reply::problem(&failure, StatusCode::PAYLOAD_TOO_LARGE);
        }
        Err(_) => {
            let failure = Error::invalid("body", "took too long to arrive").into();
            return reply::problem(&failure, StatusCode::REQUEST_TIMEOUT);
        }
    };
    answer(body).await.unwrap_or_else(|failure| reply::failure(&failure))
}
