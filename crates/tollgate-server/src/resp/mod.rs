//! The RESP protocol, versions 2 and 3, for Redis clients.
//!
//! Commands of one connection are answered in order. Commands of a pipeline are decided as one
//! batch, so that they share round trips to a remote store.

mod check;
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
use self::timeouts::Timeouts;
use crate::app::App;
use crate::listen::{Connection, ShutdownSignal};

/// How long a client may take to read its replies.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The size of a read: each read of a pipeline is decided as one batch.
const READ_BYTES: usize = 4 * 1024;

/// How long commands are still read after the shutdown, in total and for the next bytes.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const DRAIN_READ_TIMEOUT: Duration = Duration::from_millis(100);

/// Serves one connection.
pub(crate) async fn serve(connection: Connection, app: Arc<App>, signal: ShutdownSignal) {
    let Connection { stream, permit } = connection;
    if let Err(error) = serve_stream(stream, Session::new(app), signal).await {
        tracing::debug!(%error, "a connection ended early");
    }
    drop(permit);
}

async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    mut session: Session,
    mut signal: ShutdownSignal,
) -> std::io::Result<()> {
    let (mut input, mut output, mut drain_until) = (BytesMut::new(), Vec::new(), None);
    let mut timeouts = Timeouts::new(Instant::now(), session.is_permitted());
    loop {
        let (commands, error) = take(&mut input);
        if !commands.is_empty() || error.is_some() {
            let proceed = session.answer(&commands, &mut output).await;
            if let Some(error) = error {
                Reply::error("ERR", &format!("Protocol error: {error}"))
                    .write_to(&mut output, Version::Two);
            }
            within_timeout(async {
                stream.write_all(&output).await?;
                // TLS may buffer what it has accepted.
                stream.flush().await
            })
            .await?;
            output.clear();
            if !proceed || error.is_some() {
                return within_timeout(stream.shutdown()).await;
            }
            timeouts.answered(Instant::now(), !input.is_empty(), session.is_permitted());
            continue;
        }
        let deadline = timeouts.deadline();
        if !read(&mut stream, &mut input, deadline, &mut signal, &mut drain_until).await? {
            return within_timeout(stream.shutdown()).await;
        }
        timeouts.received(Instant::now());
    }
}

/// Writes within [`WRITE_TIMEOUT`].
async fn within_timeout(write: impl Future<Output = std::io::Result<()>>) -> std::io::Result<()> {
    tokio::time::timeout(WRITE_TIMEOUT, write).await.map_err(std::io::Error::other)?
}

/// Reads more; `false` at the end of the stream. After the shutdown, bytes are still read
/// for a short time.
async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    input: &mut BytesMut,
    deadline: Instant,
    signal: &mut ShutdownSignal,
    drain_until: &mut Option<Instant>,
) -> std::io::Result<bool> {
    input.reserve(READ_BYTES);
    if drain_until.is_none() {
        // A read that is always ready would never time out.
        if Instant::now() >= deadline {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        tokio::select! {
            read = tokio::time::timeout_at(deadline, stream.read_buf(input)) => {
                return Ok(read.map_err(std::io::Error::other)?? > 0);
            }
            () = signal.received() => *drain_until = Some(Instant::now() + DRAIN_TIMEOUT),
        }
    }
    let next = Instant::now() + DRAIN_READ_TIMEOUT;
    let deadline = drain_until.map_or(next, |end| end.min(next));
    match tokio::time::timeout_at(deadline, stream.read_buf(input)).await {
        Ok(read) => Ok(read? > 0),
        Err(_) => Ok(false),
    }
}

/// The complete commands of the input, at most a batch of them, and the error that ends the
/// protocol.
fn take(input: &mut BytesMut) -> (Vec<parse::Command>, Option<parse::ProtocolError>) {
    let mut commands = Vec::new();
    while commands.len() < BATCH_MAX {
        match parse::next(input) {
            Ok(Some(command)) => commands.push(command),
            Ok(None) => return (commands, None),
            Err(error) => return (commands, Some(error)),
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
    use crate::listen::Shutdown;
    use crate::telemetry::Telemetry;

    #[tokio::test]
    async fn a_client_that_sends_without_end_times_out_too() {
        let (mut stream, mut input) = (tokio::io::repeat(b'x'), BytesMut::new());
        let mut signal = Shutdown::new().signal();
        let past = Instant::now();
        let result = read(&mut stream, &mut input, past, &mut signal, &mut None).await;
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        assert!(input.is_empty());
    }

    #[tokio::test]
    async fn replies_are_flushed_through_a_buffered_stream() {
        let config = Config::built_in().unwrap();
        let limiter = Limiter::new(BoxStore::new(Memory::new()));
        let engine = Engine::new(limiter, config.policies.clone());
        let telemetry = Telemetry::new(&config).unwrap();
        let session = Session::new(App::new(engine, &config, telemetry));
        let (mut client, server) = tokio::io::duplex(1_024);
        let shutdown = Shutdown::new();
        tokio::spawn(serve_stream(BufStream::new(server), session, shutdown.signal()));
        client.write_all(b"PING\r\n").await.unwrap();
        let mut reply = [0; 7];
        let read = tokio::time::timeout(Duration::from_secs(60), client.read_exact(&mut reply));
        read.await.expect("a reply while the connection is open").unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
    }
}
