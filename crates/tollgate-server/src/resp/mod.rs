//! The RESP protocol, versions 2 and 3, for Redis clients.
//!
//! Commands of one connection are answered in order. Commands of a pipeline are decided as one
//! batch, so that they share round trips to a remote store.

mod arguments;
mod check;
mod commands;
mod direct;
pub(crate) mod parse;
mod reply;
pub(crate) mod session;
mod settle;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tollgate_service::engine::BATCH_MAX;

use self::reply::{Reply, Version};
use self::session::Session;
use crate::app::App;
use crate::http::FULL;
use crate::listen::{Client, Connection, ShutdownSignal, Watched};

/// The size of a read: each read of a pipeline is decided as one batch.
const READ_BYTES: usize = 4 * 1024;

/// After this many commands a connection lets others run. Without it, a connection whose next
/// commands are always there keeps its thread for as long as the scheduler permits: for thousands.
const COMMANDS_PER_TURN: usize = 32;

/// How long commands are still read after the shutdown, in total and for the next bytes.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const DRAIN_READ_TIMEOUT: Duration = Duration::from_millis(100);

/// Serves one connection, until its client exceeds a limit.
pub(crate) async fn serve(connection: Connection, app: Arc<App>, signal: ShutdownSignal) {
    let Connection { stream, client } = connection;
    let session = Session::new(app, Arc::clone(&client));
    let stream = Watched::new(stream, Arc::clone(&client), true);
    let ended = tokio::select! {
        ended = serve_stream(stream, session, &client, signal) => ended,
        _ = client.closed() => return,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    mut session: Session,
    client: &Arc<Client>,
    mut signal: ShutdownSignal,
) -> std::io::Result<()> {
    let (mut input, mut output, mut drain_until) = (BytesMut::new(), Vec::new(), None);
    let mut parser = parse::Parser::default();
    let mut answered = 0;
    if client.is_reserved() {
        Reply::error("BUSY", FULL).write_to(&mut output, Version::Two);
        stream.write_all(&output).await?;
        return stream.shutdown().await;
    }
    loop {
        let under_way = next_is_direct(&parser, &session, &input).then(|| client.begin());
        if under_way.is_some() {
            let (bytes, commands) = session.answer_direct(&input, BATCH_MAX, &mut output).await;
            input.advance(bytes);
            answered += commands;
        }
        let (commands, error) = take(&mut parser, &mut input);
        if under_way.is_some() || !commands.is_empty() || error.is_some() {
            let under_way = under_way.unwrap_or_else(|| client.begin());
            let proceed = commands.is_empty() || session.answer(&commands, &mut output).await;
            if let Some(error) = error {
                Reply::error("ERR", &format!("Protocol error: {error}"))
                    .write_to(&mut output, Version::Two);
            }
            stream.write_all(&output).await?;
            // TLS may buffer what it has accepted.
            stream.flush().await?;
            output.clear();
            if !proceed || error.is_some() {
                return stream.shutdown().await;
            }
            drop(under_way);
            answered += commands.len();
            if answered >= COMMANDS_PER_TURN {
                answered = 0;
                tokio::task::yield_now().await;
            }
            if !input.is_empty() {
                client.receiving();
            }
            continue;
        }
        if !read(&mut stream, &mut input, &mut signal, &mut drain_until).await? {
            return stream.shutdown().await;
        }
    }
}

/// Whether the next command can be answered from the input.
fn next_is_direct(parser: &parse::Parser, session: &Session, input: &[u8]) -> bool {
    parser.is_idle() && session.is_direct() && direct::is_next(input)
}

/// Reads more; `false` at the end of the stream. After the shutdown, bytes are still read
/// for a short time.
async fn read<S: AsyncRead + Unpin>(
    stream: &mut S,
    input: &mut BytesMut,
    signal: &mut ShutdownSignal,
    drain_until: &mut Option<Instant>,
) -> std::io::Result<bool> {
    input.reserve(READ_BYTES);
    if drain_until.is_none() {
        tokio::select! {
            read = stream.read_buf(input) => return Ok(read? > 0),
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
fn take(
    parser: &mut parse::Parser,
    input: &mut BytesMut,
) -> (Vec<parse::Command>, Option<parse::ProtocolError>) {
    let mut commands = Vec::new();
    while commands.len() < BATCH_MAX {
        match parser.next(input) {
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
    use tokio::sync::Semaphore;
    use tollgate::Limiter;
    use tollgate::store::{BoxStore, Memory};
    use tollgate_service::Engine;

    use super::*;
    use crate::config::Config;
    use crate::listen::Shutdown;
    use crate::telemetry::Telemetry;

    #[tokio::test]
    async fn replies_are_flushed_through_a_buffered_stream() {
        let config = Config::built_in().unwrap();
        let limiter = Limiter::new(BoxStore::new(Memory::new()));
        let engine = Engine::new(limiter, config.policies.clone());
        let telemetry = Telemetry::new(&config).unwrap();
        let client = Client::new(Arc::new(Semaphore::new(0)), false);
        let session = Session::new(App::new(engine, &config, telemetry), Arc::clone(&client));
        let (mut sent, server) = tokio::io::duplex(1_024);
        let (shutdown, stream) = (Shutdown::new(), BufStream::new(server));
        let signal = shutdown.signal();
        tokio::spawn(async move { serve_stream(stream, session, &client, signal).await });
        sent.write_all(b"PING\r\n").await.unwrap();
        let mut reply = [0; 7];
        let read = tokio::time::timeout(Duration::from_secs(60), sent.read_exact(&mut reply));
        read.await.expect("a reply while the connection is open").unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
    }
}
