//! What a connection is: which version it speaks, and what its commands mean.

use std::sync::Arc;

use bytes::Bytes;
use opentelemetry::context::FutureExt;
use tokio::time::Instant;

use super::limit::{Charge, failed};
use super::parse::Command;
use super::reply::{Reply, Version};
use crate::app::App;
use crate::telemetry;

/// One connection.
#[derive(Debug)]
pub(crate) struct Session {
    app: Arc<App>,
    version: Version,
    /// Whether the client may ask.
    permitted: bool,
}

/// What a command asks for.
enum Act {
    Charge(Charge),
    Say(Reply),
    Quit,
}

impl Session {
    pub(crate) fn new(app: Arc<App>) -> Self {
        let permitted = app.auth().role_of(None).is_some();
        Self { app, version: Version::default(), permitted }
    }

    /// Whether the client may ask: nobody needs a token, or it has shown one.
    pub(super) const fn is_permitted(&self) -> bool {
        self.permitted
    }

    /// Answers commands in order, within a span if spans are wanted; whether the connection goes on.
    pub(super) async fn answer(&mut self, commands: &[Command], output: &mut Vec<u8>) -> bool {
        let start = Instant::now();
        let telemetry = Arc::clone(&self.app.telemetry);
        let traces = telemetry.traces.as_ref();
        let goes_on = match traces.map(|traces| traces.begin_commands(commands.len())) {
            None => self.run(commands, output).await,
            Some(span) => {
                let goes_on = self.run(commands, output).with_context(span.clone()).await;
                telemetry::end(&span, None);
                goes_on
            }
        };
        telemetry.metrics.request("resp", start.elapsed());
        goes_on
    }

    /// Answers commands in order; whether the connection goes on.
    pub(crate) async fn run(&mut self, commands: &[Command], output: &mut Vec<u8>) -> bool {
        let mut batch = Vec::new();
        for command in commands {
            match self.understand(command) {
                Act::Charge(charge) if !charge.peek => batch.push(charge),
                Act::Charge(charge) => {
                    self.decide(&mut batch, output).await;
                    let response = self.app.engine().peek(charge.check()).await;
                    self.say(&charge.reply(response, self.app.engine().now_ms_up()), output);
                }
                Act::Say(reply) => {
                    self.decide(&mut batch, output).await;
                    self.say(&reply, output);
                }
                Act::Quit => {
                    self.decide(&mut batch, output).await;
                    self.say(&Reply::Simple("OK"), output);
                    return false;
                }
            }
        }
        self.decide(&mut batch, output).await;
        true
    }

    /// Decides everything that waits, in order.
    async fn decide(&self, batch: &mut Vec<Charge>, output: &mut Vec<u8>) {
        let engine = self.app.engine();
        let checks: Vec<_> = batch.iter().map(Charge::check).collect();
        let results = match &*checks {
            [] => return,
            [one] => vec![engine.acquire(*one).await],
            many => engine.acquire_many(many).await,
        };
        let now_ms = engine.now_ms_up();
        for (charge, result) in batch.iter().zip(results) {
            self.say(&charge.reply(result, now_ms), output);
        }
        batch.clear();
    }

    fn say(&self, reply: &Reply, output: &mut Vec<u8>) {
        reply.write_to(output, self.version);
    }

    fn understand(&mut self, command: &Command) -> Act {
        let [name, arguments @ ..] = command.as_slice() else { return Act::Say(Reply::Null) };
        let upper = name.to_ascii_uppercase();
        if !self.permitted && !matches!(upper.as_slice(), b"AUTH" | b"HELLO" | b"QUIT") {
            return Act::Say(Reply::error("NOAUTH", "Authentication required."));
        }
        let charge = match upper.as_slice() {
            // The policies of now, whenever the client connected: they say what an outage means.
            b"CL.THROTTLE" => Charge::throttle(arguments, self.app.engine().policies().ad_hoc()),
            b"TG.ACQUIRE" => Charge::acquire(arguments),
            b"QUIT" => return Act::Quit,
            b"PING" => return Act::Say(ping(arguments)),
            b"HELLO" => return Act::Say(self.hello(arguments)),
            b"AUTH" => return Act::Say(self.authenticate(arguments)),
            b"COMMAND" => return Act::Say(commands(arguments)),
            b"CLIENT" => return Act::Say(client(arguments)),
            b"INFO" => return Act::Say(info()),
            _ => return Act::Say(unknown(name)),
        };
        match charge {
            Ok(charge) => Act::Charge(charge),
            Err(error) => Act::Say(failed(&error.into())),
        }
    }

    /// `AUTH [user] token`: the token decides, whatever the user is called.
    fn authenticate(&mut self, arguments: &[Bytes]) -> Reply {
        let ([token] | [_, token]) = arguments else {
            return Reply::error("ERR", "arguments: accepted: AUTH [user] token");
        };
        if !self.app.auth().guards_callers() {
            return Reply::error("ERR", "AUTH is not needed: no token is set");
        }
        let token = std::str::from_utf8(token).ok();
        self.permitted = token.is_some() && self.app.auth().role_of(token).is_some();
        if self.permitted {
            return Reply::Simple("OK");
        }
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
            if !self.permitted {
                return reply;
            }
        }
        if !self.permitted {
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

/// Interactive clients ask for help texts; there is a count, and no texts.
fn commands(arguments: &[Bytes]) -> Reply {
    match arguments.first().map(|word| word.to_ascii_uppercase()).as_deref() {
        Some(b"COUNT") => Reply::Int(9),
        Some(b"DOCS") => Reply::Map(Vec::new()),
        _ => Reply::Array(Vec::new()),
    }
}

/// Clients introduce themselves; nobody here needs to know.
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
    let known = "CL.THROTTLE, TG.ACQUIRE, PING, HELLO, AUTH, COMMAND, CLIENT, INFO, QUIT";
    Reply::error("ERR", &format!("unknown command '{name}'; accepted: {known}"))
}
