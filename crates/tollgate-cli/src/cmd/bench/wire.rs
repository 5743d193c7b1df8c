//! One connection of a load: sends a request, and understands the answer. Three protocols, one
//! meaning.

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

/// How long a connection may take to stand.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Why a request was not answered; it may move to other threads.
pub(super) type Problem = Box<dyn std::error::Error + Send + Sync>;

/// What every request says, but for its key.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) target: Target,
    pub(super) policy: String,
    pub(super) cost: u64,
    /// Never printed: whoever prints this prints only what is above.
    pub(super) token: Option<Secret>,
}

/// A token.
pub(super) struct Secret(pub(super) String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    /// Decided without the store. RESP does not say.
    pub(super) degraded: bool,
}

/// A connection.
pub(super) enum Wire {
    Http(SendRequest<Full<Bytes>>),
    Grpc(RateLimiterClient<Channel>, Option<MetadataValue<Ascii>>),
    Resp(BufStream<TcpStream>),
}

impl Wire {
    /// Connects, and says who asks.
    pub(super) async fn connect(asking: &Arc<Asking>) -> Result<Self, Problem> {
        let place = &asking.target.place;
        let wire = async {
            Ok(match asking.target.protocol {
                Protocol::Http => {
                    let (sender, connection) =
                        http1::handshake(TokioIo::new(tcp(place).await?)).await?;
                    tokio::spawn(connection);
                    Self::Http(sender)
                }
                Protocol::Grpc => {
                    let endpoint = Endpoint::from_shared(format!("http://{place}"))?;
                    let bearer = asking.token.as_ref().map(|token| format!("Bearer {}", token.0));
                    let bearer = bearer.map(|text| text.parse()).transpose();
                    let bearer = bearer.map_err(|_| "--token: accepted: ASCII")?;
                    Self::Grpc(RateLimiterClient::new(endpoint.connect().await?), bearer)
                }
                Protocol::Resp => {
                    let mut stream = BufStream::new(tcp(place).await?);
                    if let Some(token) = &asking.token {
                        introduce(&mut stream, token).await?;
                    }
                    Self::Resp(stream)
                }
            })
        };
        let connected = tokio::time::timeout(CONNECT_WITHIN, wire).await;
        connected.unwrap_or_else(|_| Err("the connection took too long".into()))
    }

    /// Asks for a key, and waits for the answer.
    pub(super) async fn ask(&mut self, asking: &Asking, key: &str) -> Result<Answer, Problem> {
        match self {
            Self::Http(sender) => http(sender, asking, key).await,
            Self::Grpc(client, bearer) => grpc(client, bearer.as_ref(), asking, key).await,
            Self::Resp(stream) => resp(stream, asking, key).await,
        }
    }
}

async fn tcp(place: &str) -> Result<TcpStream, Problem> {
    let stream = TcpStream::connect(place).await.map_err(|error| format!("{place}: {error}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn http(
    sender: &mut SendRequest<Full<Bytes>>,
    asking: &Asking,
    key: &str,
) -> Result<Answer, Problem> {
    let body = serde_json::json!({"policy": asking.policy, "key": key, "cost": asking.cost});
    let mut request = Request::post("/v1/acquire").header("host", &asking.target.place);
    if let Some(token) = &asking.token {
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
        _ => return Err(text("code").unwrap_or("not understood").to_owned().into()),
    };
    Ok(Answer { verdict, degraded: text("degraded").is_some() })
}

async fn grpc(
    client: &mut RateLimiterClient<Channel>,
    bearer: Option<&MetadataValue<Ascii>>,
    asking: &Asking,
    key: &str,
) -> Result<Answer, Problem> {
    let mut request = tonic::Request::new(AcquireRequest {
        policy: asking.policy.clone(),
        key: key.to_owned(),
        cost: Some(asking.cost),
        ..AcquireRequest::default()
    });
    if let Some(bearer) = bearer {
        request.metadata_mut().insert("authorization", bearer.clone());
    }
    let reply = client.acquire(request).await.map_err(|status| format!("{:?}", status.code()))?;
    let decision = reply.into_inner();
    let degraded = decision.degraded() != Degraded::Unspecified;
    match decision.verdict() {
        Verdict::Unspecified => Err("not understood".into()),
        verdict => Ok(Answer { verdict, degraded }),
    }
}

async fn resp(
    stream: &mut BufStream<TcpStream>,
    asking: &Asking,
    key: &str,
) -> Result<Answer, Problem> {
    let cost = asking.cost.to_string();
    say(stream, &["TG.ACQUIRE", &asking.policy, key, &cost]).await?;
    let head = line(stream).await?;
    if let Some(error) = head.strip_prefix('-') {
        return Err(error.split(' ').next().unwrap_or("ERR").to_owned().into());
    }
    if head != "*5" {
        return Err("not understood".into());
    }
    let mut numbers = [0_i64; 5];
    for number in &mut numbers {
        *number = line(stream).await?.strip_prefix(':').ok_or("not understood")?.parse()?;
    }
    let verdict = match numbers {
        [1, ..] => Verdict::Allowed,
        [_, _, _, -1, _] => Verdict::Never,
        _ => Verdict::Denied,
    };
    Ok(Answer { verdict, degraded: false })
}

async fn introduce(stream: &mut BufStream<TcpStream>, token: &Secret) -> Result<(), Problem> {
    say(stream, &["AUTH", &token.0]).await?;
    match line(stream).await?.as_str() {
        "+OK" => Ok(()),
        _ => Err("--token: the server does not accept it".into()),
    }
}

async fn say(stream: &mut BufStream<TcpStream>, words: &[&str]) -> Result<(), Problem> {
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let command: String = words.iter().map(word).collect();
    stream.write_all(format!("*{}\r\n{command}", words.len()).as_bytes()).await?;
    Ok(stream.flush().await?)
}

async fn line(stream: &mut BufStream<TcpStream>) -> Result<String, Problem> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err("the server closed the connection".into());
    }
    Ok(line.trim_end().to_owned())
}
