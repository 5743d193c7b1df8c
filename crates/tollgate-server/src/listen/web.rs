//! HTTP connections: version 1 for the HTTP API, version 2 for gRPC, with the same bounds on
//! headers and the same timeouts.

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

use super::{Connection, ShutdownSignal, Stream, preface};
use crate::app::App;
use crate::http;

/// How long a client may take to send its headers, or be idle between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the first byte of a connection may take, or the first bytes of HTTP/2.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often an idle gRPC connection is pinged, and how long its reply may take.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of headers, and of what is buffered per connection.
const HEADER_BYTES: u32 = 16 * 1024;
const BUFFER_BYTES: usize = 64 * 1024;
/// Requests at once on one gRPC connection.
const STREAMS: u32 = 200;

/// Serves HTTP/1.1.
pub(crate) async fn serve_http(connection: Connection, app: Arc<App>, mut signal: ShutdownSignal) {
    if has_sent(&connection, &mut signal).await {
        let mut builder = http1::Builder::new();
        let builder = builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(BUFFER_BYTES);
        let service = service_fn(move |request| {
            let app = Arc::clone(&app);
            async move { Ok::<_, Infallible>(http::answer(&app, request).await) }
        });
        let Connection { stream, permit } = connection;
        serve(builder.serve_connection(TokioIo::new(stream), service), signal).await;
        drop(permit);
    }
}

/// Serves HTTP/2 without upgrade, for gRPC.
pub(crate) async fn serve_grpc(connection: Connection, router: Router, mut signal: ShutdownSignal) {
    let Connection { stream, permit } = connection;
    let stream = tokio::select! {
        biased;
        stream = preface::read(stream, FIRST_BYTE_TIMEOUT) => stream,
        () = signal.received() => None,
    };
    if let Some(stream) = stream {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let builder = builder
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .max_header_list_size(HEADER_BYTES)
            .max_concurrent_streams(STREAMS);
        let service = TowerToHyperService::new(router);
        serve(builder.serve_connection(TokioIo::new(stream), service), signal).await;
    }
    drop(permit);
}

/// Serves until the client disconnects; after the shutdown, only requests under way.
async fn serve(
    connection: impl GracefulConnection<Error = hyper::Error>,
    mut signal: ShutdownSignal,
) {
    let mut serving = pin!(connection);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = signal.received() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    // Clients break connections all the time.
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Whether a client sends a byte in time. One that never does must not occupy a connection for
/// long.
async fn has_sent(connection: &Connection, signal: &mut ShutdownSignal) -> bool {
    // The TLS handshake was sent.
    let Stream::Plain(stream) = &connection.stream else { return true };
    tokio::select! {
        biased;
        ready = tokio::time::timeout(FIRST_BYTE_TIMEOUT, stream.readable()) => {
            matches!(ready, Ok(Ok(())))
        }
        () = signal.received() => false,
    }
}
