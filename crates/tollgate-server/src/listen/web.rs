//! HTTP connections: version 1 for the HTTP API, version 2 for gRPC, with the same bounds on
//! headers and on time.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::time::timeout;

use super::pieces::Pieces;
use super::{Client, Connection, Reply, ShutdownSignal, UnderWay, Watched};
use crate::app::App;
use crate::grpc::{Served, Services};
use crate::http::Answer;
use crate::status::Events;
use crate::{grpc, http};

/// How long a client that has connected before the shutdown may take to send its first request.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// How often an idle gRPC connection is pinged, and how long its reply may take.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of headers, on HTTP and on gRPC, and of what is buffered per connection.
const HTTP_HEADER_BYTES: usize = 64 * 1024;
const GRPC_HEADER_BYTES: u32 = 16 * 1024;
const BUFFER_BYTES: usize = 2 * HTTP_HEADER_BYTES;
/// Requests at once on one gRPC connection.
const STREAMS: u32 = 200;

/// Serves HTTP/1.1.
pub(crate) async fn serve_http(connection: Connection, app: Arc<App>, signal: ShutdownSignal) {
    let Connection { stream, client } = connection;
    let mut builder = http1::Builder::new();
    // Time limits are those of the listener.
    let builder = builder
        .header_read_timeout(None)
        .max_header_size(HTTP_HEADER_BYTES)
        .max_buf_size(BUFFER_BYTES);
    // Counted for each connection: threads that counted the same references with every request
    // would wait for each other.
    let served = Arc::new((app, Arc::clone(&client)));
    let service = service_fn(move |request| {
        let served = Arc::clone(&served);
        async move {
            let (app, client) = &*served;
            let under_way = client.begin();
            let response = http::answer(app, client, request).await;
            Ok::<_, Infallible>(response.map(|body| reply(body, under_way)))
        }
    });
    let stream = TokioIo::new(Watched::new(stream, Arc::clone(&client), true));
    serve(builder.serve_connection(stream, service), &client, signal).await;
}

/// The body of a reply. A stream of events is no request under way, which would have an end.
fn reply(body: Answer, under_way: UnderWay) -> Either<Reply<Full<Bytes>>, Reply<Events>> {
    match body {
        Either::Left(whole) => Either::Left(Reply::new(whole, under_way, None)),
        Either::Right(mut events) => {
            let stream = events.stream.take().unwrap_or(under_way);
            Either::Right(Reply::new(events, stream, None))
        }
    }
}

/// Serves HTTP/2 without upgrade, for gRPC.
pub(crate) async fn serve_grpc(
    connection: Connection,
    services: Arc<Services>,
    signal: ShutdownSignal,
) {
    let Connection { stream, client } = connection;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    let builder = builder
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .max_header_list_size(GRPC_HEADER_BYTES)
        .max_send_buf_size(BUFFER_BYTES)
        .max_concurrent_streams(STREAMS);
    let served = Arc::new(Served { services, client: Arc::clone(&client) });
    let service = service_fn(move |request| {
        served.client.request_arrived();
        grpc::answer(&served, request)
    });
    let stream = Watched::new(stream, Arc::clone(&client), false);
    let stream = TokioIo::new(Pieces::new(stream, Arc::clone(&client)));
    serve(builder.serve_connection(stream, service), &client, signal).await;
}

/// Serves until the client disconnects or exceeds a limit; after the shutdown, only requests under
/// way.
async fn serve(
    connection: impl GracefulConnection<Error = hyper::Error>,
    client: &Client,
    mut signal: ShutdownSignal,
) {
    let mut serving = pin!(connection);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        why = client.closed() => {
            serving.as_mut().graceful_shutdown();
            timeout(why.grace(), serving).await.unwrap_or(Ok(()))
        }
        () = signal.received() => {
            // A client that could connect gets its answer.
            let first = if client.has_requested() { Duration::ZERO } else { DRAIN_TIMEOUT };
            match timeout(first, serving.as_mut()).await {
                Ok(ended) => ended,
                Err(_) => {
                    serving.as_mut().graceful_shutdown();
                    tokio::select! {
                        ended = serving => ended,
                        _ = client.closed() => Ok(()),
                    }
                }
            }
        }
    };
    // Clients break connections all the time.
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
