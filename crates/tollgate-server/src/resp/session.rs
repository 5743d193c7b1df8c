//! The state of a connection, and the replies to its commands.

use std::sync::Arc;

use bytes::Bytes;
use opentelemetry::context::FutureExt;
use tokio::time::Instant;
use tollgate_service::auth::Role;

use super::check::{CheckCommand, failed};
use super::parse::Command;
use super::refund::{self, RefundCommand};
use super::reply::{Reply, Version};
use crate::app::App;
use crate::listen::Client;
use crate::telemetry;

/// The commands.
const KNOWN: [&str; 10] = [
    "CL.THROTTLE",
    "TG.ACQUIRE",
    "TG.REFUND",
    "PING",
    "HELLO",
    "AUTH",
    "COMMAND",
    "CLIENT",
    "INFO",
    "QUIT",
];

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    app: Arc<App>,
    client: Arc<Client>,
    version: Version,
    /// What the client may do, by its token or without one; `None` until it has sent one that is
    /// required.
    role: Option<Role>,
    /// Whether the command under way failed to authenticate.
    failed: bool,
}

/// A command after parsing.
enum Action {
    Check(CheckCommand),
    Refund(RefundCommand, Role),
    Reply(Reply),
    Quit,
    /// Closes the connection without a reply.
    Drop,
}

impl Session {
    pub(crate) fn new(app: Arc<App>, client: Arc<Client>) -> Self {
        let role = app.auth().role_of(None);
        Self { app, client, version: Version::default(), role, failed: false }
    }

    /// Answers commands in order, within a span; `false` closes the connection.
    pub(super) async fn answer(&mut self, commands: &[Command], output: &mut Vec<u8>) -> bool {
        let start = Instant::now();
        let telemetry = Arc::clone(&self.app.telemetry);
        let traces = telemetry.traces.as_ref();
        let proceed = match traces.map(|traces| traces.begin_commands(commands.len())) {
            None => self.run(commands, output).await,
            Some(span) => {
                let proceed = self.run(commands, output).with_context(span.clone()).await;
                telemetry::end(&span, None);
                proceed
            }
        };
        telemetry.metrics.request("resp", start.elapsed());
        proceed
    }

    /// Answers commands in order; `false` closes the connection.
    pub(crate) async fn run(&mut self, commands: &[Command], output: &mut Vec<u8>) -> bool {
        let mut batch = Vec::new();
        for command in commands {
            match self.parse(command) {
                Action::Check(check) if !check.peek => batch.push(check),
                Action::Check(check) => {
                    self.decide(&mut batch, output).await;
                    let response = self.app.engine().peek(check.request()).await;
                    self.write(&check.reply(response, self.app.engine().now_ms_up()), output);
                }
                Action::Refund(refund, role) => {
                    self.decide(&mut batch, output).await;
                    let response = self.app.engine().refund(refund.request(), role).await;
                    self.write(&refund::reply(response), output);
                }
                Action::Reply(reply) => {
                    self.decide(&mut batch, output).await;
                    if std::mem::take(&mut self.failed) {
                        self.app.authentication_failed("resp", &self.client).await;
                    }
                    self.write(&reply, output);
                }
                Action::Quit => {
                    self.decide(&mut batch, output).await;
                    self.write(&Reply::Simple("OK"), output);
                    return false;
                }
                Action::Drop => {
                    self.decide(&mut batch, output).await;
                    return false;
                }
            }
        }
        self.decide(&mut batch, output).await;
        true
    }

    /// Decides the batch, in order.
    async fn decide(&self, batch: &mut Vec<CheckCommand>, output: &mut Vec<u8>) {
        let engine = self.app.engine();
        let requests: Vec<_> = batch.iter().map(CheckCommand::request).collect();
        let results = match &*requests {
            [] => return,
            [one] => vec![engine.acquire(*one).await],
            many => engine.acquire_many(many).await,
        };
        let now_ms = engine.now_ms_up();
        for (check, result) in batch.iter().zip(results) {
            self.write(&check.reply(result, now_ms), output);
        }
        batch.clear();
    }

    fn write(&self, reply: &Reply, output: &mut Vec<u8>) {
        reply.write_to(output, self.version);
    }

    fn parse(&mut self, command: &Command) -> Action {
        let [name, arguments @ ..] = command.as_slice() else { return Action::Reply(Reply::Null) };
        let upper = name.to_ascii_uppercase();
        // A page can make a browser send an HTTP request here, with commands in its body.
        if matches!(upper.as_slice(), b"POST" | b"HOST:") {
            return Action::Drop;
        }
        let connects = matches!(upper.as_slice(), b"AUTH" | b"HELLO" | b"QUIT");
        if self.role.is_none() && !connects {
            return Action::Reply(Reply::error("NOAUTH", "Authentication required."));
        }
        if self.role.is_some() && KNOWN.iter().any(|known| known.as_bytes() == upper) {
            self.client.made_valid_request();
        }
        let action = match upper.as_slice() {
            // The policies in force: the outage mode may have changed since the client connected.
            b"CL.THROTTLE" => {
                CheckCommand::throttle(arguments, &self.app.engine().policies()).map(Action::Check)
            }
            b"TG.ACQUIRE" => CheckCommand::acquire(arguments).map(Action::Check),
            b"TG.REFUND" => {
                let role = self.role.unwrap_or(Role::Caller);
                RefundCommand::parse(arguments).map(|refund| Action::Refund(refund, role))
            }
            b"QUIT" => return Action::Quit,
            b"PING" => return Action::Reply(ping(arguments)),
            b"HELLO" => return Action::Reply(self.hello(arguments)),
            b"AUTH" => return Action::Reply(self.authenticate(arguments)),
            b"COMMAND" => return Action::Reply(commands(arguments)),
            b"CLIENT" => return Action::Reply(client(arguments)),
            b"INFO" => return Action::Reply(info()),
            _ => return Action::Reply(unknown(name)),
        };
        action.unwrap_or_else(|error| Action::Reply(failed(&error.into())))
    }

    /// `AUTH [user] token`: the user is ignored.
    fn authenticate(&mut self, arguments: &[Bytes]) -> Reply {
        let ([token] | [_, token]) = arguments else {
            return Reply::error("ERR", "arguments: accepted: AUTH [user] token");
        };
        let auth = self.app.auth();
        if !auth.has_tokens() {
            return Reply::error("ERR", "AUTH is not needed: no token is set");
        }
        // A token that is not known leaves what clients without one may do.
        let by_token = std::str::from_utf8(token).ok().and_then(|token| auth.role_by(Some(token)));
        self.role = auth.role_of(None).max(by_token);
        if by_token.is_some() {
            self.client.made_valid_request();
            return Reply::Simple("OK");
        }
        self.failed = true;
        Reply::error("WRONGPASS", "invalid token")
    }

    /// `HELLO [version [AUTH user password] [SETNAME name]]`.
    fn hello(&mut self, arguments: &[Bytes]) -> Reply {
        let version = match arguments.first().map(AsRef::as_ref) {
            None => self.version,
            Some(b"2") => Version::Two,
            Some(b"3") => Version::Three,
            Some(_) => return Reply::error("NOPROTO", "unsupported protocol version"),
        };
        let auth = arguments.iter().position(|word| word.eq_ignore_ascii_case(b"AUTH"));
        if let Some(words) = auth.and_then(|at| arguments.get(at + 1..at + 3)) {
            let reply = self.authenticate(words);
            if self.failed || self.role.is_none() {
                return reply;
            }
        }
        if self.role.is_none() {
            let how = "HELLO must be called with AUTH, or after it";
            return Reply::error("NOAUTH", how);
        }
        self.version = version;
        let text = |text: &str| Reply::Bulk(text.to_owned());
        let version = if self.version == Version::Three { 3 } else { 2 };
        Reply::Map(vec![
            (text("server"), text("tollgate")),
            (text("version"), text(env!("CARGO_PKG_VERSION"))),
            (text("proto"), Reply::Int(version)),
            (text("id"), Reply::Int(0)),
            (text("mode"), text("standalone")),
            (text("role"), text("master")),
            (text("modules"), Reply::Array(Vec::new())),
        ])
    }
}

fn ping(arguments: &[Bytes]) -> Reply {
    match arguments {
        [] => Reply::Simple("PONG"),
        [echo] => Reply::Bulk(String::from_utf8_lossy(echo).into_owned()),
        _ => Reply::error("ERR", "arguments: accepted: PING [message]"),
    }
}

/// `redis-cli` requests documentation of commands; there is none.
fn commands(arguments: &[Bytes]) -> Reply {
    match arguments.first().map(|word| word.to_ascii_uppercase()).as_deref() {
        Some(b"COUNT") => Reply::Int(i64::try_from(KNOWN.len()).unwrap_or(i64::MAX)),
        Some(b"DOCS") => Reply::Map(Vec::new()),
        _ => Reply::Array(Vec::new()),
    }
}

/// Clients set their names; the server ignores them.
fn client(arguments: &[Bytes]) -> Reply {
    match arguments.first().map(|word| word.to_ascii_uppercase()).as_deref() {
        Some(b"ID") => Reply::Int(0),
        Some(b"GETNAME") => Reply::Null,
        Some(b"SETINFO" | b"SETNAME") => Reply::Simple("OK"),
        _ => Reply::error("ERR", "CLIENT: accepted: SETINFO, SETNAME, GETNAME, ID"),
    }
}

fn info() -> Reply {
    let version = env!("CARGO_PKG_VERSION");
    let lines = ["# Server", "redis_mode:standalone", "loading:0"].join("\r\n");
    Reply::Bulk(format!("{lines}\r\ntollgate_version:{version}\r\n"))
}

fn unknown(name: &Bytes) -> Reply {
    let name: String = String::from_utf8_lossy(name).chars().take(64).collect();
    let known = KNOWN.join(", ");
    Reply::error("ERR", &format!("unknown command '{name}'; accepted: {known}"))
}
