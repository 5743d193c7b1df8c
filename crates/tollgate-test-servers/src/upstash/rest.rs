//! Requests become commands, replies become JSON.
//!
//! `POST /` runs one command, `POST /pipeline` several, `POST /multi-exec` several as one
//! transaction; any other path is a command itself. All of them need the token. An error has the
//! status 400; an error of one of several commands is one of the results.

use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::base64::encoded;
use crate::http::{Request, Response};
use crate::resp::{Client, Reply};

/// Commands that are sent before their replies are read: few enough for the buffers of a socket.
const WINDOW: usize = 64;

/// Answers the requests of one connection over one connection to the server.
#[derive(Debug)]
pub(super) struct Session {
    redis: SocketAddr,
    token: String,
    client: Option<Client>,
}

/// The words of a command.
type Words = Vec<Vec<u8>>;

impl Session {
    pub(super) const fn new(redis: SocketAddr, token: String) -> Self {
        Self { redis, token, client: None }
    }

    pub(super) fn answer(&mut self, request: &Request) -> Response {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let parameters: Vec<(&str, &str)> = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .collect();
        if !self.is_authorized(request, &parameters) {
            return error(401, "WRONGPASS invalid or missing auth token");
        }
        if !["GET", "HEAD", "POST", "PUT"].contains(&request.method.as_str()) {
            return error(405, "ERR unsupported method");
        }
        let form = Form { base64: request.header("upstash-encoding") == Some("base64") };
        let answer = match (request.method.as_str(), path) {
            ("POST", "/") => self.one(&form, body_of(request).as_ref().and_then(words_of)),
            ("POST", "/pipeline") => self.several(&form, commands_of(request)),
            ("POST", "/multi-exec") => self.transaction(&form, commands_of(request)),
            _ => self.one(&form, path_words(path, request, &parameters)),
        };
        answer.unwrap_or_else(|failure| {
            // The connection may have unread replies.
            self.client = None;
            error(500, &format!("ERR {failure}"))
        })
    }

    fn is_authorized(&self, request: &Request, parameters: &[(&str, &str)]) -> bool {
        let bearer = request.header("authorization").and_then(|text| text.strip_prefix("Bearer "));
        let given = parameters.iter().find(|(name, _)| *name == "_token").map(|(_, value)| *value);
        bearer.or(given) == Some(self.token.as_str())
    }

    fn one(&mut self, form: &Form, words: Option<Words>) -> io::Result<Response> {
        let Some(words) = words else {
            return Ok(error(400, "ERR failed to parse command"));
        };
        Ok(match self.run(&[words])?.pop() {
            Some(Reply::Error(text)) => error(400, &text),
            Some(reply) => ok(&json!({ "result": form.value(&reply) })),
            None => error(500, "ERR no reply"),
        })
    }

    fn several(&mut self, form: &Form, commands: Option<Vec<Words>>) -> io::Result<Response> {
        let Some(commands) = commands else {
            return Ok(error(400, "ERR failed to parse pipeline request"));
        };
        Ok(ok(&form.results(&self.run(&commands)?)))
    }

    fn transaction(&mut self, form: &Form, commands: Option<Vec<Words>>) -> io::Result<Response> {
        let Some(mut commands) = commands else {
            return Ok(error(400, "ERR failed to parse pipeline request"));
        };
        commands.insert(0, vec![b"MULTI".to_vec()]);
        commands.push(vec![b"EXEC".to_vec()]);
        Ok(match self.run(&commands)?.pop() {
            Some(Reply::Array(replies)) => ok(&form.results(&replies)),
            Some(Reply::Error(text)) => error(400, &text),
            _ => error(500, "ERR no reply"),
        })
    }

    /// Runs commands in order; an error is a reply like any other.
    fn run(&mut self, commands: &[Words]) -> io::Result<Vec<Reply>> {
        let client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(self.redis)?,
        };
        let client = self.client.insert(client);
        let mut replies = Vec::with_capacity(commands.len());
        for window in commands.chunks(WINDOW) {
            for words in window {
                client.send(words)?;
            }
            for _ in window {
                replies.push(client.read()?);
            }
        }
        Ok(replies)
    }
}

/// How texts are written.
struct Form {
    base64: bool,
}

impl Form {
    fn results(&self, replies: &[Reply]) -> Value {
        let result = |reply: &Reply| match reply {
            Reply::Error(text) => json!({ "error": text }),
            reply => json!({ "result": self.value(reply) }),
        };
        replies.iter().map(result).collect()
    }

    fn value(&self, reply: &Reply) -> Value {
        match reply {
            Reply::Nil => Value::Null,
            Reply::Integer(number) => json!(number),
            Reply::Status(text) | Reply::Error(text) => self.text(text.as_bytes()),
            Reply::Bulk(bytes) => self.text(bytes),
            Reply::Array(elements) => elements.iter().map(|element| self.value(element)).collect(),
        }
    }

    fn text(&self, bytes: &[u8]) -> Value {
        if self.base64 && bytes != b"OK" {
            return json!(encoded(bytes));
        }
        json!(String::from_utf8_lossy(bytes))
    }
}

fn ok(body: &Value) -> Response {
    Response { status: 200, body: body.to_string() }
}

fn error(status: u16, text: &str) -> Response {
    Response { status, body: json!({ "error": text }).to_string() }
}

fn body_of(request: &Request) -> Option<Value> {
    serde_json::from_slice(&request.body).ok()
}

fn commands_of(request: &Request) -> Option<Vec<Words>> {
    body_of(request)?.as_array()?.iter().map(words_of).collect()
}

/// A command is an array of texts and numbers.
fn words_of(command: &Value) -> Option<Words> {
    let words: Words = command.as_array()?.iter().map(word_of).collect::<Option<_>>()?;
    (!words.is_empty()).then_some(words)
}

fn word_of(word: &Value) -> Option<Vec<u8>> {
    match word {
        Value::String(text) => Some(text.clone().into_bytes()),
        Value::Number(number) => Some(number.to_string().into_bytes()),
        Value::Bool(truth) => Some(truth.to_string().into_bytes()),
        _ => None,
    }
}

/// `/set/key/value`: what a POST carries follows the path, and parameters follow that.
fn path_words(path: &str, request: &Request, parameters: &[(&str, &str)]) -> Option<Words> {
    let mut words: Words = path.trim_matches('/').split('/').map(decoded).collect();
    if !request.body.is_empty() {
        words.push(request.body.clone());
    }
    for (name, value) in parameters.iter().filter(|(name, _)| *name != "_token") {
        let pair = [name, value].into_iter().filter(|word| !word.is_empty());
        words.extend(pair.map(|word| decoded(word)));
    }
    words.first().is_some_and(|verb| !verb.is_empty()).then_some(words)
}

/// Undoes `%41`; what is no such triple stays.
fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let triple = after.split_at_checked(2).filter(|_| first == b'%');
        let byte = triple.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        let (byte, after) = byte.unwrap_or((first, after));
        bytes.push(byte);
        rest = after;
    }
    bytes
}
