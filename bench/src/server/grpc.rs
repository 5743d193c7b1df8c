//! gRPC over hyper: one service of unary calls, and a client.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};

use crate::Result;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");
const STATUS: &str = "grpc-status";

/// Answers every request with what `answer` makes of its message.
pub(super) async fn serve<F, A>(listener: TcpListener, answer: F) -> Result<()>
where
    F: Fn(Bytes) -> A + Clone + Send + 'static,
    A: Future<Output = Bytes> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let answer = answer.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| reply(request, answer.clone()));
            let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            // The client ends connections without notice.
            let _ = builder
                .max_concurrent_streams(1_024)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn reply<F, A>(
    request: Request<Incoming>,
    answer: F,
) -> std::result::Result<Response<Reply>, Infallible>
where
    F: Fn(Bytes) -> A,
    A: Future<Output = Bytes>,
{
    let message = request.into_body().collect().await.map(|body| body.to_bytes());
    let data = answer(message.unwrap_or_default()).await;
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(STATUS, HeaderValue::from_static("0"));
    let mut response = Response::new(Reply { data: Some(data), trailers: Some(trailers) });
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    Ok(response)
}

/// A message and the status after it.
struct Reply {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        let data = self.data.take().map(Frame::data);
        let frame = data.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }
}

/// One connection, which many callers share.
#[derive(Clone, Debug)]
pub(super) struct Client {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
}

impl Client {
    /// Connects.
    pub(super) async fn connect(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(addr).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let shaken =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = shaken.await.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(Self { sender, authority: addr.to_string() })
    }

    /// One call: the framed reply.
    pub(super) async fn call(&mut self, path: &str, message: Bytes) -> Result<Bytes> {
        let request = Request::post(format!("http://{}{path}", self.authority))
            .header(CONTENT_TYPE, GRPC)
            .header(TE, TRAILERS)
            .body(Full::new(message))
            .map_err(|error| error.to_string())?;
        self.sender.ready().await.map_err(|error| error.to_string())?;
        let response = self.sender.send_request(request).await.map_err(|e| e.to_string())?;
        let head = response.headers().get(STATUS).cloned();
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
        let status = head.or_else(|| body.trailers().and_then(|all| all.get(STATUS)).cloned());
        match status {
            Some(status) if status == "0" => Ok(body.to_bytes()),
            status => Err(format!("{path} was answered with the status {status:?}")),
        }
    }
}
