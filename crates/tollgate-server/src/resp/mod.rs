//! The RESP interface: any Redis client is a client. Versions 2 and 3, pipelined.
//!
//! Commands of one connection are answered in order. Those that decide and arrive together are
//! decided as one batch, so that a pipeline costs a remote store few round trips.

mod limit;
pub(crate) mod parse;
mod reply;
pub(crate) mod session;
mod timeouts;

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tollgate_service::engine::BATCH_MAX;

use self::reply::{Reply, Version};
use self::session::Session;
use self::timeouts::Patience;
use crate::app::App;
use crate::listen::{Connection, Draining};

/// How long a client may take to read its replies.
const REPLIES_WITHIN: Duration = Duration::from_secs(10);

/// How much is read at once: a pipeline is decided in as many batches as it takes reads.
const READ_BYTES: usize = 4 * 1024;

/// How long commands are still read at the end of the server, and how long a pause ends it.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// Serves one connection.
pub(crate) async fn serve(connection: Connection, app: Arc<App>, draining: Draining) {
    let Connection { stream, place } = connection;
    if let Err(error) = converse(stream, Session::new(app), draining).await {
        tracing::debug!(%error, "a connection ended early");
    }
    drop(place);
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    mut session: Session,
    mut draining: Draining,
) -> std::io::Result<()> {
    let (mut input, mut output, mut ends_at) = (BytesMut::new(), Vec::new(), None);
    let mut patience = Patience::new(Instant::now(), session.is_permitted());
    loop {
        let (commands, broken) = take(&mut input);
        if !commands.is_empty() || broken.is_some() {
            let goes_on = session.answer(&commands, &mut output).await;
            if let Some(why) = broken {
                Reply::error("ERR", &format!("Protocol error: {why}"))
                    .write_to(&mut output, Version::Two);
            }
            in_time(async {
                stream.write_all(&output).await?;
                // TLS may keep what it has accepted, until somebody asks.
                stream.flush().await
            })
            .await?;
            output.clear();
            if !goes_on || broken.is_some() {
                return in_time(stream.shutdown()).await;
            }
            patience.answered(Instant::now(), !input.is_empty(), session.is_permitted());
            continue;
        }
        let until = patience.until();
        if !hear(&mut stream, &mut input, until, &mut draining, &mut ends_at).await? {
            return in_time(stream.shutdown()).await;
        }
        patience.heard(Instant::now());
    }
}

/// Sends, as long as the client takes no longer than it may to read.
async fn in_time(send: impl Future<Output = std::io::Result<()>>) -> std::io::Result<()> {
    tokio::time::timeout(REPLIES_WITHIN, send).await.map_err(std::io::Error::other)?
}

/// Reads more; whether anything came. At the end of the server, what is on its way still counts,
/// as long as it comes without a pause and for a short time.
async fn hear<S: AsyncRead + Unpin>(
    stream: &mut S,
    input: &mut BytesMut,
    until: Instant,
    draining: &mut Draining,
    ends_at: &mut Option<Instant>,
) -> std::io::Result<bool> {
    input.reserve(READ_BYTES);
    if ends_at.is_none() {
        // Somebody of whom there is always more to read would be given all the time in the world.
        if Instant::now() >= until {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        tokio::select! {
            read = tokio::time::timeout_at(until, stream.read_buf(input)) => {
                return Ok(read.map_err(std::io::Error::other)?? > 0);
            }
            () = draining.stopped() => *ends_at = Some(Instant::now() + LAST_WORDS),
        }
    }
    let pause = Instant::now() + LAST_PAUSE;
    let until = ends_at.map_or(pause, |end| end.min(pause));
    match tokio::time::timeout_at(until, stream.read_buf(input)).await {
        Ok(read) => Ok(read? > 0),
        Err(_) => Ok(false),
    }
}

/// The whole commands of the input, at most a batch of them, and why there can be no more.
fn take(input: &mut BytesMut) -> (Vec<parse::Command>, Option<parse::Broken>) {
    let mut commands = Vec::new();
    while commands.len() < BATCH_MAX {
        match parse::next(input) {
            Ok(Some(command)) => commands.push(command),
            Ok(None) => return (commands, None),
            Err(broken) => return (commands, Some(broken)),
        }
    }
    (commands, None)
}

#[cfg(test)]
mod tests {
    use tokio::io::BufStream;
    use tollgate::Limiter;
    use tollgate::store::{BoxStore, Memory};
    use tollgate_service::Engine;

    use super::*;
    use crate::config::Config;
    use crate::listen::Drain;
    use crate::telemetry::Telemetry;

    #[tokio::test]
    async fn who_never_stops_talking_has_no_more_time_than_others() {
        let (mut stream, mut input) = (tokio::io::repeat(b'x'), BytesMut::new());
        let mut draining = Drain::new().draining();
        let over = Instant::now();
        let heard = hear(&mut stream, &mut input, over, &mut draining, &mut None).await;
        assert_eq!(heard.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        assert!(input.is_empty());
    }

    #[tokio::test]
    async fn replies_leave_a_stream_that_keeps_what_it_accepts() {
        let config = Config::built_in().unwrap();
        let limiter = Limiter::new(BoxStore::new(Memory::new()));
        let engine = Engine::new(limiter, config.policies.clone());
        let telemetry = Telemetry::new(&config).unwrap();
        let session = Session::new(App::new(engine, config.auth, telemetry));
        let (mut client, server) = tokio::io::duplex(1_024);
        let drain = Drain::new();
        tokio::spawn(converse(BufStream::new(server), session, drain.draining()));
        client.write_all(b"PING\r\n").await.unwrap();
        let mut reply = [0; 7];
        let read = tokio::time::timeout(Duration::from_secs(60), client.read_exact(&mut reply));
        read.await.expect("a reply while the connection is open").unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
    }
}
