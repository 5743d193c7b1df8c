//! Makes connections: reaches a host, verifies it, logs in.

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tollgate_core::{Code, Error, Result};

use super::exclusive::{ExclusiveConnection, Words};
use super::host::Host;
use super::settings::Settings;
use super::stream::Stream;
use crate::error_reply::error_of;
use crate::transport::Reply;

/// Connects to a host; everything together takes at most the connect timeout.
///
/// # Errors
/// When the host cannot be reached, cannot be verified, or refuses the login. All of them are
/// `not_sent`: no call has been made yet.
pub(super) async fn dial(host: &Host, settings: &Settings) -> Result<ExclusiveConnection> {
    connect(host, settings).await.map_err(Error::not_sent)
}

async fn connect(host: &Host, settings: &Settings) -> Result<ExclusiveConnection> {
    let limit = settings.connect_timeout;
    let (deadline, limit) = (Instant::now() + limit, limit.as_millis());
    let cannot = |error: &std::io::Error| {
        let kind = error.kind();
        unavailable(format!("cannot connect to {host} ({kind})"))
    };
    let stream = timeout_at(deadline, TcpStream::connect((host.name(), host.port()))).await;
    let late = |_| unavailable(format!("no connection to {host} within {limit} ms"));
    let stream = stream.map_err(late)?.map_err(|error| cannot(&error))?;
    stream.set_nodelay(true).map_err(|error| cannot(&error))?;
    let stream: Stream = match &settings.tls {
        Some(tls) => {
            let encrypted = timeout_at(deadline, tls.encrypt(host.name(), stream)).await;
            // A server without TLS waits for the rest of the command.
            let late = |_| {
                let hint = "if it has no TLS, write redis instead of rediss";
                unavailable(format!("no TLS handshake with {host} within {limit} ms; {hint}"))
            };
            Box::new(encrypted.map_err(late)??)
        }
        None => Box::new(stream),
    };
    let mut connection = ExclusiveConnection::new(stream, host.clone());
    let logged_in = timeout_at(deadline, log_in(&mut connection, settings)).await;
    let late = |_| unavailable(format!("{host} is connected and did not answer within {limit} ms"));
    logged_in.map_err(late)??;
    Ok(connection)
}

fn unavailable(message: String) -> Error {
    Error::new(Code::StoreUnavailable, message)
}

/// Logs in, chooses the database, and sees that the server serves: one that still loads its data
/// says so to a `PING`.
async fn log_in(connection: &mut ExclusiveConnection, settings: &Settings) -> Result<()> {
    let database = settings.database.to_string();
    let user = settings.login.user.as_deref().map(str::as_bytes);
    let password = settings.login.password.as_ref().map(|password| password.as_bytes());
    let login: Vec<&[u8]> = [Some(&b"AUTH"[..]), user, password].into_iter().flatten().collect();
    let select: [&[u8]; 2] = [b"SELECT", database.as_bytes()];
    let name: [&[u8]; 3] =
        [b"CLIENT", b"SETNAME", settings.name.as_deref().unwrap_or_default().as_bytes()];
    let mut commands: Vec<Words<'_>> = Vec::new();
    if password.is_some() {
        commands.push(&login);
    }
    if settings.database != 0 {
        commands.push(&select);
    }
    if settings.name.is_some() {
        commands.push(&name);
    }
    commands.push(&[b"PING"]);
    let replies = connection.exchange(&commands, settings.connect_timeout).await;
    let replies = replies.map_err(|error| match settings.tls {
        Some(_) => error,
        None => unavailable(format!(
            "{}; if it has TLS, write rediss instead of redis",
            error.message()
        )),
    })?;
    for (words, reply) in commands.iter().zip(replies) {
        let Reply::Error(text) = reply else { continue };
        match words.first() {
            Some(&b"AUTH") => return Err(refused("the user or the password", &text)),
            Some(&b"SELECT") => return Err(refused("the database", &text)),
            // A user may lack these two rights: they are not needed.
            _ if text.starts_with("NOPERM") => {}
            _ => return Err(error_of(&text)),
        }
    }
    Ok(())
}

/// Shows the first word only: the rest may hold a name.
fn refused(what: &str, text: &str) -> Error {
    let kind = text.split(' ').next().filter(|kind| kind.bytes().all(|b| b.is_ascii_uppercase()));
    let kind = kind.unwrap_or("ERR");
    unavailable(format!("Redis refuses {what} ({kind})"))
}
