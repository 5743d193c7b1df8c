//! Connections that speak HTTP: version 1 for the HTTP interface, version 2 for gRPC.
//!
//! Both are a router behind hyper, with the same bounds on headers and the same patience with slow
//! clients, and both end the same way.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;

use super::{Connection, Draining, Stream, preface};
use crate::app::App;
use crate::http;

/// How long a client may take to send its headers, or be idle between requests.
const HEADERS_WITHIN: Duration = Duration::from_secs(60);
/// How long the first byte of a connection may take, or the first bytes of HTTP/2.
const FIRST_BYTE_WITHIN: Duration = Duration::from_secs(10);
/// How often a silent gRPC connection is asked whether it is alive, and how long it may take.
const ALIVE_EVERY: Duration = Duration::from_secs(30);
const ALIVE_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of headers, and of what is buffered per connection.
const HEADER_BYTES: u32 = 16 * 1024;
const BUFFER_BYTES: usize = 64 * 1024;
/// Requests at once on one gRPC connection.
const STREAMS: u32 = 200;

/// Serves HTTP/1.1.
pub(crate) async fn serve_http(connection: Connection, app: Arc<App>, mut draining: Draining) {
    if speaks(&connection, &mut draining).await {
        let mut builder = http1::Builder::new();
        let builder = builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            .max_buf_size(BUFFER_BYTES);
        let service = service_fn(move |request| {
            let app = Arc::clone(&app);
            async move { Ok::<_, Infallible>(http::answer(&app, request).await) }
        });
        let Connection { stream, place } = connection;
        serve(builder.serve_connection(TokioIo::new(stream), service), draining).await;
        drop(place);
    }
}

/// Serves HTTP/2 without upgrade, as gRPC clients speak it.
pub(crate) async fn serve_grpc(connection: Connection, router: Router, mut draining: Draining) {
    let Connection { stream, place } = connection;
    let begun = tokio::select! {
        biased;
        begun = preface::begin(stream, FIRST_BYTE_WITHIN) => begun,
        () = draining.stopped() => None,
    };
    if let Some(stream) = begun {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let builder = builder
            .timer(TokioTimer::new())
            .keep_alive_interval(ALIVE_EVERY)
            .keep_alive_timeout(ALIVE_WITHIN)
            .max_header_list_size(HEADER_BYTES)
            .max_concurrent_streams(STREAMS);
        let service = TowerToHyperService::new(router);
        serve(builder.serve_connection(TokioIo::new(stream), service), draining).await;
    }
    drop(place);
}

/// Serves until the client leaves; from the moment of the end on, only what has begun.
async fn serve(connection: impl GracefulConnection<Error = hyper::Error>, mut draining: Draining) {
    let mut serving = pin!(connection);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = draining.stopped() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    // Connections break all the time; only somebody who looks for it wants to read about it.
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Whether a client sends anything in time. One that never does must not hold a place for long.
async fn speaks(connection: &Connection, draining: &mut Draining) -> bool {
    // Whoever has agreed on keys has spoken.
    let Stream::Plain(stream) = &connection.stream else { return true };
    tokio::select! {
        biased;
        ready = tokio::time::timeout(FIRST_BYTE_WITHIN, stream.readable()) => {
            matches!(ready, Ok(Ok(())))
        }
        () = draining.stopped() => false,
    }
}
