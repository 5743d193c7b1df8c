//! One connection of the load: sends a request, and parses the response, in each of three
//! protocols.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tollgate_proto::tollgate_v1::rate_limiter_client::RateLimiterClient;
use tollgate_proto::tollgate_v1::{AcquireRequest, Degraded, Verdict};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};

use super::args::{Protocol, Target};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a request failed; it can move between threads.
pub(super) type Problem = Box<dyn std::error::Error + Send + Sync>;

/// A request without its key.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) target: Target,
    pub(super) policy: String,
    pub(super) cost: u64,
    pub(super) token: Option<Secret>,
}

/// A token; `Debug` omits it.
pub(super) struct Secret(pub(super) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// The decision of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    /// Decided without the store; RESP does not report this.
    pub(super) degraded: bool,
}

/// A connection.
pub(super) enum Connection {
    Http(SendRequest<Full<Bytes>>),
    Grpc(RateLimiterClient<Channel>, Option<MetadataValue<Ascii>>),
    Resp(BufStream<TcpStream>),
}

impl Connection {
    /// Connects and authenticates.
    pub(super) async fn connect(template: &Arc<Template>) -> Result<Self, Problem> {
        let address = &template.target.address;
        let connecting = async {
            Ok(match template.target.protocol {
                Protocol::Http => {
                    let (sender, connection) =
                        http1::handshake(TokioIo::new(tcp(address).await?)).await?;
                    tokio::spawn(connection);
                    Self::Http(sender)
                }
                Protocol::Grpc => {
                    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
                    let bearer = template.token.as_ref().map(|token| format!("Bearer {}", token.0));
                    let bearer = bearer.map(|text| text.parse()).transpose();
                    let bearer = bearer.map_err(|_| "--token: accepted: ASCII")?;
                    Self::Grpc(RateLimiterClient::new(endpoint.connect().await?), bearer)
                }
                Protocol::Resp => {
                    let mut stream = BufStream::new(tcp(address).await?);
                    if let Some(token) = &template.token {
                        authenticate(&mut stream, token).await?;
                    }
                    Self::Resp(stream)
                }
            })
        };
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        connected.unwrap_or_else(|_| Err("the connection took too long".into()))
    }

    /// Charges a key.
    pub(super) async fn acquire(
        &mut self,
        template: &Template,
        key: &str,
    ) -> Result<Outcome, Problem> {
        match self {
            Self::Http(sender) => http(sender, template, key).await,
            Self::Grpc(client, bearer) => grpc(client, bearer.as_ref(), template, key).await,
            Self::Resp(stream) => resp(stream, template, key).await,
        }
    }
}

async fn tcp(address: &str) -> Result<TcpStream, Problem> {
    let stream =
        TcpStream::connect(address).await.map_err(|error| format!("{address}: {error}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn http(
    sender: &mut SendRequest<Full<Bytes>>,
    template: &Template,
    key: &str,
) -> Result<Outcome, Problem> {
    let body = serde_json::json!({"policy": template.policy, "key": key, "cost": template.cost});
    let mut request = Request::post("/v1/acquire").header("host", &template.target.address);
    if let Some(token) = &template.token {
        request = request.header("authorization", format!("Bearer {}", token.0));
    }
    sender.ready().await?;
    let request = request.body(Full::new(Bytes::from(body.to_string())))?;
    let reply = sender.send_request(request).await?;
    let fine = reply.status().is_success();
    let reply: Value = serde_json::from_slice(&reply.into_body().collect().await?.to_bytes())?;
    let text = |name: &str| reply.get(name).and_then(Value::as_str);
    let verdict = match text("verdict") {
        Some("allowed") if fine => Verdict::Allowed,
        Some("denied") if fine => Verdict::Denied,
        Some("never") if fine => Verdict::Never,
        _ => return Err(text("code").unwrap_or("unexpected reply").to_owned().into()),
    };
    Ok(Outcome { verdict, degraded: text("degraded").is_some() })
}

async fn grpc(
    client: &mut RateLimiterClient<Channel>,
    bearer: Option<&MetadataValue<Ascii>>,
    template: &Template,
    key: &str,
) -> Result<Outcome, Problem> {
    let mut request = tonic::Request::new(AcquireRequest {
        policy: template.policy.clone(),
        key: key.to_owned(),
        cost: Some(template.cost),
        ..AcquireRequest::default()
    });
    if let Some(bearer) = bearer {
        request.metadata_mut().insert("authorization", bearer.clone());
    }
    let reply = client.acquire(request).await.map_err(|status| format!("{:?}", status.code()))?;
    let decision = reply.into_inner();
    let degraded = decision.degraded() != Degraded::Unspecified;
    match decision.verdict() {
        Verdict::Unspecified => Err("unexpected reply".into()),
        verdict => Ok(Outcome { verdict, degraded }),
    }
}

async fn resp(
    stream: &mut BufStream<TcpStream>,
    template: &Template,
    key: &str,
) -> Result<Outcome, Problem> {
    let cost = template.cost.to_string();
    send_command(stream, &["TG.ACQUIRE", &template.policy, key, &cost]).await?;
    let head = read_line(stream).await?;
    if let Some(error) = head.strip_prefix('-') {
        return Err(error.split(' ').next().unwrap_or("ERR").to_owned().into());
    }
    if head != "*5" {
        return Err("unexpected reply".into());
    }
    let mut numbers = [0_i64; 5];
    for number in &mut numbers {
        *number = read_line(stream).await?.strip_prefix(':').ok_or("unexpected reply")?.parse()?;
    }
    let verdict = match numbers {
        [1, ..] => Verdict::Allowed,
        [_, _, _, -1, _] => Verdict::Never,
        _ => Verdict::Denied,
    };
    Ok(Outcome { verdict, degraded: false })
}

async fn authenticate(stream: &mut BufStream<TcpStream>, token: &Secret) -> Result<(), Problem> {
    send_command(stream, &["AUTH", &token.0]).await?;
    match read_line(stream).await?.as_str() {
        "+OK" => Ok(()),
        _ => Err("--token: the server does not accept it".into()),
    }
}

async fn send_command(stream: &mut BufStream<TcpStream>, words: &[&str]) -> Result<(), Problem> {
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let command: String = words.iter().map(word).collect();
    stream.write_all(format!("*{}\r\n{command}", words.len()).as_bytes()).await?;
    Ok(stream.flush().await?)
}

async fn read_line(stream: &mut BufStream<TcpStream>) -> Result<String, Problem> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err("the server closed the connection".into());
    }
    Ok(line.trim_end().to_owned())
}
