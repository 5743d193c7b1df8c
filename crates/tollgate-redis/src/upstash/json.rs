//! Calls become JSON, and JSON becomes replies.
//!
//! Texts go and come as they are: what Tollgate stores is ASCII, so base64 would gain
//! nothing. A text that is no UTF-8 was stored by another program; however it arrives, it is
//! refused as a state.

use serde_json::Value;
use tollgate_core::{Code, Error, Result};

use super::status::is_full;
use crate::transport::{Call, Reply};

/// Upstash refuses requests beyond 1 MB on its smaller plans. Only a round that sends many scripts
/// as text comes near.
const BODY_MAX: usize = 512 << 10;

/// What one request carries.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) json: Vec<u8>,
    /// How many calls.
    pub(super) calls: usize,
}

/// The calls in order, in as few requests as their size allows: one, as a rule.
pub(super) fn bodies_of(calls: &[Call]) -> Vec<Body> {
    let mut bodies: Vec<Body> = Vec::with_capacity(1);
    for call in calls {
        let is_full = |body: &Body| body.json.len() >= BODY_MAX;
        match bodies.last_mut().filter(|body| !is_full(body)) {
            Some(body) => {
                body.json.push(b',');
                body.calls += 1;
            }
            None => bodies.push(Body { json: vec![b'['], calls: 1 }),
        }
        if let Some(body) = bodies.last_mut() {
            write(call, &mut body.json);
        }
    }
    for body in &mut bodies {
        body.json.push(b']');
    }
    bodies
}

fn write(call: &Call, json: &mut Vec<u8>) {
    for (at, word) in call.words().enumerate() {
        json.push(if at == 0 { b'[' } else { b',' });
        // All words are texts, so nothing is lost; and writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut *json, &String::from_utf8_lossy(word));
    }
    json.push(b']');
}

/// The replies to this many calls.
///
/// # Errors
/// When it is anything but an array of this many results. The calls may have run.
pub(super) fn replies_of(json: &[u8], calls: usize) -> Result<Vec<Result<Reply>>> {
    match serde_json::from_slice(json) {
        Ok(Value::Array(results)) if results.len() == calls => {
            Ok(results.into_iter().map(result_of).collect())
        }
        _ => Err(strange()),
    }
}

/// The text of `{"error": …}`.
pub(super) fn error_of(json: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(json).ok()?;
    Some(value.get("error")?.as_str()?.to_owned())
}

fn result_of(result: Value) -> Result<Reply> {
    let Value::Object(mut fields) = result else {
        return Err(strange());
    };
    match (fields.remove("error"), fields.remove("result")) {
        (Some(Value::String(text)), _) => is_full(&text).map_or(Ok(Reply::Error(text)), Err),
        (None, Some(value)) => reply_of(value),
        _ => Err(strange()),
    }
}

fn reply_of(value: Value) -> Result<Reply> {
    Ok(match value {
        Value::Null => Reply::Nil,
        Value::Number(number) => Reply::Integer(number.as_i64().ok_or_else(strange)?),
        Value::String(text) => Reply::Text(text.into_bytes()),
        Value::Array(values) => {
            Reply::List(values.into_iter().map(reply_of).collect::<Result<_>>()?)
        }
        // Scripts answer nothing of that kind.
        Value::Bool(_) | Value::Object(_) => return Err(strange()),
    })
}

fn strange() -> Error {
    let message = "the answer is not what the REST interface of Upstash answers; is the URL right?";
    Error::new(Code::StoreUnavailable, message)
}
