//! The commands: from words to what is to be done.

use bytes::Bytes;
use tollgate_service::auth::TokenHash;

use super::arguments::ARGUMENTS;
use super::check::{CheckCommand, failed};
use super::parse::Command;
use super::reply::{Reply, Version};
use super::session::{Action, Session};
use super::settle::{RefundCommand, SettleCommand, parse_reset};
use super::transaction::Transaction;

/// The commands.
const KNOWN: [&str; 19] = [
    "CL.THROTTLE",
    "TG.ACQUIRE",
    "TG.ACQUIREALL",
    "TG.PEEK",
    "TG.FORECAST",
    "TG.REFUND",
    "TG.SETTLE",
    "TG.RESET",
    "MULTI",
    "EXEC",
    "DISCARD",
    "PING",
    "HELLO",
    "AUTH",
    "SELECT",
    "COMMAND",
    "CLIENT",
    "INFO",
    "QUIT",
];

impl Session {
    /// What a command asks for. After `MULTI`, commands are queued.
    pub(super) fn next(&mut self, command: &Command) -> Action {
        let Some(mut transaction) = self.transaction.take() else { return self.parse(command) };
        let upper = command.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        let reply = match upper.as_slice() {
            b"EXEC" => return transaction.into_actions().map_or_else(Action::Reply, Action::Exec),
            b"DISCARD" => return Action::Reply(Reply::Simple("OK")),
            b"QUIT" => return Action::Quit,
            b"MULTI" => Reply::error("ERR", "MULTI calls can not be nested"),
            b"AUTH" | b"HELLO" => {
                transaction.abort(Reply::error("ERR", "not accepted between MULTI and EXEC"))
            }
            _ => match self.parse(command) {
                Action::Drop => return Action::Drop,
                action => transaction.queue(action, command.iter().map(Bytes::len).sum()),
            },
        };
        self.transaction = Some(transaction);
        Action::Reply(reply)
    }

    fn parse(&mut self, command: &Command) -> Action {
        let [name, arguments @ ..] = command.as_slice() else { return Action::Reply(Reply::Null) };
        let upper = name.to_ascii_uppercase();
        // A page can make a browser send an HTTP request here, with commands in its body.
        if matches!(upper.as_slice(), b"POST" | b"HOST:") {
            return Action::Drop;
        }
        let connects = matches!(upper.as_slice(), b"AUTH" | b"HELLO" | b"QUIT");
        if self.rights.is_none() && !connects {
            return Action::Refused(Reply::error("NOAUTH", "Authentication required."));
        }
        if self.rights.is_some() && KNOWN.iter().any(|known| known.as_bytes() == upper) {
            self.client.made_valid_request();
        }
        let action = match upper.as_slice() {
            // The policies in force: the outage mode may have changed since the client connected.
            b"CL.THROTTLE" => {
                CheckCommand::throttle(arguments, &self.app.engine().policies()).map(Action::Check)
            }
            b"TG.ACQUIRE" => CheckCommand::acquire(arguments).map(Action::Check),
            b"TG.ACQUIREALL" => CheckCommand::acquire_all(arguments).map(Action::Check),
            b"TG.PEEK" => CheckCommand::peek(arguments).map(Action::Check),
            b"TG.FORECAST" => CheckCommand::forecast(arguments).map(Action::Forecast),
            b"TG.REFUND" => RefundCommand::parse(arguments).map(Action::Refund),
            b"TG.SETTLE" => SettleCommand::parse(arguments).map(Action::Settle),
            b"TG.RESET" => parse_reset(arguments).map(Action::Reset),
            b"QUIT" => return Action::Quit,
            b"PING" => return ping(arguments),
            b"HELLO" | b"AUTH" => return Action::Connect(command.clone()),
            b"MULTI" => return self.begin(),
            b"EXEC" => return refused("EXEC without MULTI"),
            b"DISCARD" => return refused("DISCARD without MULTI"),
            b"SELECT" => return select(arguments),
            b"COMMAND" => return Action::Reply(commands(arguments)),
            b"CLIENT" => return Action::Reply(client(arguments)),
            b"INFO" => return Action::Reply(info()),
            _ => return unknown(name),
        };
        action.unwrap_or_else(|error| {
            let is_usage = error.field() == Some(ARGUMENTS);
            let reply = failed(&error.into());
            if is_usage { Action::Refused(reply) } else { Action::Reply(reply) }
        })
    }

    fn begin(&mut self) -> Action {
        self.transaction = Some(Transaction::default());
        Action::Reply(Reply::Simple("OK"))
    }

    /// `AUTH` or `HELLO`.
    pub(super) fn connect(&mut self, command: &Command) -> Reply {
        match command.as_slice() {
            [name, arguments @ ..] if name.eq_ignore_ascii_case(b"AUTH") => {
                self.authenticate(arguments)
            }
            [_, arguments @ ..] => self.hello(arguments),
            [] => Reply::Null,
        }
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
        let token = std::str::from_utf8(token).ok().map(TokenHash::of);
        self.token = token.filter(|token| auth.rights_by(Some(token)).is_some());
        drop(auth);
        self.find_rights();
        if self.token.is_some() {
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
            if self.failed || self.rights.is_none() {
                return reply;
            }
        }
        if self.rights.is_none() {
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

/// An error of a command that is no command here, or has other words than it takes.
fn refused(message: &str) -> Action {
    Action::Refused(Reply::error("ERR", message))
}

fn ping(arguments: &[Bytes]) -> Action {
    match arguments {
        [] => Action::Reply(Reply::Simple("PONG")),
        [echo] => Action::Reply(Reply::Bulk(String::from_utf8_lossy(echo).into_owned())),
        _ => refused("arguments: accepted: PING [message]"),
    }
}

/// `SELECT 0`: there is one database.
fn select(arguments: &[Bytes]) -> Action {
    match arguments {
        [number] if number == "0" => Action::Reply(Reply::Simple("OK")),
        [_] => Action::Reply(Reply::error("ERR", "DB index is out of range; accepted: 0")),
        _ => refused("arguments: accepted: SELECT 0"),
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

fn unknown(name: &Bytes) -> Action {
    let name: String = String::from_utf8_lossy(name).chars().take(64).collect();
    let known = KNOWN.join(", ");
    refused(&format!("unknown command '{name}'; accepted: {known}"))
}
