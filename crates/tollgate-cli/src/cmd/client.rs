//! `tollgate acquire`, `peek`, `settle` and `reset`: a client of the HTTP API.
#![expect(clippy::print_stdout, reason = "it prints the response")]

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};

use super::endpoint::Endpoint;
use super::{Failed, Refused, Usage, code};
use crate::args::{Check, Server, Settle};

/// How long the server may take to answer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Charges a key, or peeks at it. The exit code says whether it is allowed.
pub(crate) fn check(path: &str, check: &Check) -> Result<u8, Failed> {
    let mut fields = Map::new();
    fields.insert("key".to_owned(), check.key.clone().into());
    fields.insert("policy".to_owned(), check.policy.clone().into());
    let cost = match check.up_to {
        None => check.cost.into(),
        Some(most) => serde_json::json!({"min": check.cost, "max": most}),
    };
    fields.insert("cost".to_owned(), cost);
    if let Some(id) = &check.request_id {
        fields.insert("request_id".to_owned(), id.clone().into());
    }
    if check.receipt {
        fields.insert("receipt".to_owned(), true.into());
    }
    let reply = post(&check.server, path, &Value::Object(fields))?;
    if check.json {
        println!("{reply}");
    } else {
        println!("{}", describe(&reply));
        if let Some(receipt) = reply.get("receipt").and_then(Value::as_str) {
            println!("receipt {receipt}");
        }
    }
    match reply.get("allowed").and_then(Value::as_bool) {
        Some(true) => Ok(0),
        _ => Ok(code::DENIED),
    }
}

/// Sets the final cost of the charges of a receipt.
pub(crate) fn settle(settle: &Settle) -> Result<(), Failed> {
    let mut fields = Map::new();
    fields.insert("receipt".to_owned(), settle.receipt.clone().into());
    match settle.cost {
        Some(cost) => fields.insert("cost".to_owned(), cost.into()),
        None => {
            let costs = settle.costs.iter().map(|(name, units)| (name.clone(), (*units).into()));
            fields.insert("costs".to_owned(), Value::Object(costs.collect()))
        }
    };
    let reply = post(&settle.server, "/v1/settle", &Value::Object(fields))?;
    if settle.json {
        println!("{reply}");
    } else {
        println!("{}", settled(&reply));
    }
    Ok(())
}

/// A settlement in a sentence.
fn settled(reply: &Value) -> String {
    let number = |name: &str| reply.get(name).and_then(Value::as_u64).unwrap_or(0);
    let again = reply.get("replayed").map_or("", |_| " before");
    let done = [("refunded", "given back"), ("charged", "charged"), ("dropped", "dropped")];
    let done = done.iter().filter(|(name, _)| number(name) > 0);
    let done = done.map(|(name, what)| format!("{} {what}", number(name)));
    let done = match done.collect::<Vec<_>>().join(", ") {
        nothing if nothing.is_empty() => "nothing changed".to_owned(),
        done => done,
    };
    format!("settled{again}: {done}, {} of {} left", number("remaining"), number("limit"))
}

/// Forgets what a key has spent.
pub(crate) fn reset(server: &Server, policy: &str, key: &str) -> Result<(), Failed> {
    post(server, "/v1/reset", &serde_json::json!({"policy": policy, "key": key}))?;
    println!("reset");
    Ok(())
}

/// A decision in a sentence.
fn describe(reply: &Value) -> String {
    let number = |name: &str| reply.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (left, limit) = (number("remaining"), number("limit"));
    let granted = reply.get("granted").and_then(Value::as_u64);
    let granted = granted.map_or_else(String::new, |units| format!(" {units} granted,"));
    match reply.get("verdict").and_then(Value::as_str) {
        Some("allowed") => match number("delay_ms") {
            0 => format!("allowed,{granted} {left} of {limit} left"),
            wait => format!("allowed after {wait} ms,{granted} {left} of {limit} left"),
        },
        Some("denied") => {
            format!("denied, {left} of {limit} left; retry after {} ms", number("retry_after_ms"))
        }
        _ => format!("never: more than the limit of {limit}"),
    }
}

fn post(server: &Server, path: &str, body: &Value) -> Result<Value, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(send(server, path, body.to_string()))
}

/// Posts JSON to a server, over a connection of its own.
pub(super) async fn send(server: &Server, path: &str, body: String) -> Result<Value, Failed> {
    let mut connection = Connection::to(&Endpoint::of_http(server)?).await?;
    let sending = connection.post(path, server.token.as_deref(), body);
    let sent = tokio::time::timeout(REPLY_TIMEOUT, sending).await;
    let (status, reply) = sent.map_err(|_| "the server took too long to answer")??;
    if status.is_success() { Ok(reply) } else { Err(refused(status, &reply).into()) }
}

/// An answer without a result, in words.
fn refused(status: StatusCode, reply: &Value) -> Refused {
    let text = |name: &str| reply.get(name).and_then(Value::as_str).unwrap_or_default();
    let (code, field, detail) = (text("code"), text("field"), text("detail"));
    let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
    let hint = match status {
        StatusCode::UNAUTHORIZED => "; --token or TOLLGATE_TOKEN sets one",
        _ => "",
    };
    let message = format!("{field}{detail}{hint} ({code}, {})", status.as_u16());
    let code = match status {
        StatusCode::BAD_REQUEST
        | StatusCode::NOT_FOUND
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNPROCESSABLE_ENTITY => code::USAGE,
        StatusCode::CONFLICT => code::DENIED,
        _ => code::NOT_ASKED,
    };
    Refused { code, message }
}

/// A connection to the HTTP API.
pub(super) struct Connection {
    host: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects to a listener.
    pub(super) async fn to(endpoint: &Endpoint) -> Result<Self, Failed> {
        let stream = TokioIo::new(endpoint.connect().await?);
        let (sender, connection) = http1::handshake(stream).await?;
        tokio::spawn(connection);
        Ok(Self { host: endpoint.authority(), sender })
    }

    /// Posts JSON; status and body of the response.
    pub(super) async fn post(
        &mut self,
        path: &str,
        token: Option<&str>,
        body: String,
    ) -> Result<(StatusCode, Value), Failed> {
        let mut request = Request::post(path).header("host", &self.host);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request =
            request.map_err(|_| Usage("--token: holds bytes that no token has".into()))?;
        let unexpected = |error: hyper::Error| {
            let host = &self.host;
            format!(
                "{host} does not answer as a Tollgate server ({error}); with TLS, write https://"
            )
        };
        self.sender.ready().await.map_err(unexpected)?;
        let reply = self.sender.send_request(request).await.map_err(unexpected)?;
        let status = reply.status();
        let body = reply.into_body().collect().await?.to_bytes();
        let json = serde_json::from_slice(&body).map_err(|_| {
            format!("{} does not answer as a Tollgate server ({status})", self.host)
        })?;
        Ok((status, json))
    }
}
