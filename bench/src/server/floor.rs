//! The floor: a server that reads a request and answers a constant, on HTTP and on gRPC.
//!
//! It runs in a process of its own: this program, called with [`CHILD`].

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use super::grpc;
use super::wire::Message;
use crate::Result;

/// The subcommand of the process.
pub(crate) const CHILD: &str = "child-floor";

/// About as long as a decision of Tollgate.
const JSON: &str = concat!(
    r#"{"allowed":true,"verdict":"allowed","limit":10000000,"remaining":9999999,"#,
    r#""reset_at_ms":1700000000000,"retry_after_ms":0,"delay_ms":0,"policy":"bench"}"#
);

/// Runs the server: `current` or `threads`, and the addresses for HTTP and gRPC.
pub(crate) fn child(words: &[String]) -> Result<()> {
    let [kind, http, grpc] = words else {
        return Err("a kind and two addresses are needed".into());
    };
    runtime(kind == "current")?.block_on(async {
        let (http, grpc) = (listen(http).await?, listen(grpc).await?);
        tokio::spawn(grpc::serve(grpc, |_| std::future::ready(decision())));
        serve(http).await
    })
}

/// A runtime of one thread, or of one per core.
pub(super) fn runtime(is_current: bool) -> Result<Runtime> {
    let mut builder =
        if is_current { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build().map_err(|error| error.to_string())
}

pub(super) async fn listen(addr: &str) -> Result<TcpListener> {
    let addr: SocketAddr = addr.parse().map_err(|_| format!("{addr} is no address"))?;
    TcpListener::bind(addr).await.map_err(|error| format!("{addr}: {error}"))
}

fn decision() -> Bytes {
    let numbers = [(1, 1), (2, 1), (3, 10_000_000), (4, 9_999_999), (5, 1_700_000_000_000), (6, 0)];
    let message = Message::default();
    let message = numbers.iter().fold(message, |message, (field, n)| message.number(*field, *n));
    message.text(8, "bench").framed()
}

async fn serve(listener: TcpListener) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        tokio::spawn(async move {
            let http = hyper::server::conn::http1::Builder::new();
            let service = service_fn(answer);
            // The client ends connections without notice.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::new(Bytes::from_static(JSON.as_bytes())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
