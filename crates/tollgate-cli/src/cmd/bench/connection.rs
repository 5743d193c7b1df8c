//! One connection of the load: sends a request, and parses the response, in each of three
//! protocols.

use std::time::Duration;

use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tollgate_proto::tollgate_v1::rate_limiter_client::RateLimiterClient;
use tollgate_proto::tollgate_v1::{AcquireRequest, Degraded, Verdict};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;
use tower::service_fn;

use super::args::{Bench, Protocol, Target};
use crate::cmd::endpoint::{Endpoint, Stream};
use crate::cmd::{Failed, client};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A request without its key.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) target: Target,
    pub(super) bench: Bench,
}

impl Template {
    fn token(&self) -> Option<&str> {
        self.bench.server.token.as_deref()
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
    Http(client::Connection),
    Grpc(RateLimiterClient<Channel>, Option<MetadataValue<Ascii>>),
    Resp(BufStream<Stream>),
}

impl Connection {
    /// Connects and authenticates.
    pub(super) async fn connect(template: &Template) -> Result<Self, Failed> {
        let (endpoint, token) = (&template.target.endpoint, template.token());
        let connecting = async {
            Ok(match template.target.protocol {
                Protocol::Http => Self::Http(client::Connection::to(endpoint).await?),
                Protocol::Grpc => {
                    let bearer = token.map(|token| format!("Bearer {token}").parse()).transpose();
                    let bearer = bearer.map_err(|_| "--token: holds bytes that no token has")?;
                    Self::Grpc(RateLimiterClient::new(channel(endpoint).await?), bearer)
                }
                Protocol::Resp => {
                    let mut stream = BufStream::new(endpoint.connect().await?);
                    if let Some(token) = token {
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
    ) -> Result<Outcome, Failed> {
        match self {
            Self::Http(connection) => http(connection, template, key).await,
            Self::Grpc(client, bearer) => grpc(client, bearer.as_ref(), template, key).await,
            Self::Resp(stream) => resp(stream, template, key).await,
        }
    }
}

/// A channel over a connection of this program, encrypted or not.
async fn channel(endpoint: &Endpoint) -> Result<Channel, Failed> {
    let address = format!("http://{}", endpoint.authority());
    let endpoint = endpoint.clone();
    let connect = service_fn(move |_| {
        let endpoint = endpoint.clone();
        async move { endpoint.connect().await.map(TokioIo::new) }
    });
    Ok(tonic::transport::Endpoint::from_shared(address)?.connect_with_connector(connect).await?)
}

async fn http(
    connection: &mut client::Connection,
    template: &Template,
    key: &str,
) -> Result<Outcome, Failed> {
    let Bench { policy, cost, .. } = &template.bench;
    let body = json!({"policy": policy, "key": key, "cost": cost}).to_string();
    let (status, reply) = connection.post("/v1/acquire", template.token(), body).await?;
    let text = |name: &str| reply.get(name).and_then(Value::as_str);
    let verdict = match text("verdict").filter(|_| status.is_success()) {
        Some("allowed") => Verdict::Allowed,
        Some("denied") => Verdict::Denied,
        Some("never") => Verdict::Never,
        _ => return Err(text("code").unwrap_or("unexpected reply").to_owned().into()),
    };
    Ok(Outcome { verdict, degraded: text("degraded").is_some() })
}

async fn grpc(
    client: &mut RateLimiterClient<Channel>,
    bearer: Option<&MetadataValue<Ascii>>,
    template: &Template,
    key: &str,
) -> Result<Outcome, Failed> {
    let mut request = tonic::Request::new(AcquireRequest {
        policy: template.bench.policy.clone(),
        key: key.to_owned(),
        cost: Some(template.bench.cost),
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
    stream: &mut BufStream<Stream>,
    template: &Template,
    key: &str,
) -> Result<Outcome, Failed> {
    let Bench { policy, cost, .. } = &template.bench;
    send_command(stream, &["TG.ACQUIRE", policy, key, &cost.to_string()]).await?;
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

async fn authenticate(stream: &mut BufStream<Stream>, token: &str) -> Result<(), Failed> {
    send_command(stream, &["AUTH", token]).await?;
    match read_line(stream).await?.as_str() {
        "+OK" => Ok(()),
        _ => Err("--token: the server does not accept it".into()),
    }
}

async fn send_command(stream: &mut BufStream<Stream>, words: &[&str]) -> Result<(), Failed> {
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let command: String = words.iter().map(word).collect();
    stream.write_all(format!("*{}\r\n{command}", words.len()).as_bytes()).await?;
    Ok(stream.flush().await?)
}

async fn read_line(stream: &mut BufStream<Stream>) -> Result<String, Failed> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err("the server closed the connection".into());
    }
    Ok(line.trim_end().to_owned())
}
