//! A connection that one caller has to itself: commands go out together, replies come back.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tollgate_core::{Code, Error, Result};

use super::host::Host;
use super::resp::Parser;
use super::stream::Stream;
use crate::encode::{head, word};
use crate::transport::Reply;

const CHUNK: usize = 4 * 1024;

/// A command as its words.
pub(super) type Words<'a> = &'a [&'a [u8]];

/// A stream and what has arrived on it.
#[derive(Debug)]
pub(super) struct ExclusiveConnection {
    stream: Stream,
    host: Host,
    parser: Parser,
}

impl ExclusiveConnection {
    pub(super) fn new(stream: Stream, host: Host) -> Self {
        Self { stream, host, parser: Parser::default() }
    }

    /// Where it leads to.
    pub(super) const fn host(&self) -> &Host {
        &self.host
    }

    /// Sends commands in one round trip.
    ///
    /// # Errors
    /// When not all replies came in time. Then the connection is of no use any more.
    pub(super) async fn exchange(
        &mut self,
        commands: &[Words<'_>],
        limit: Duration,
    ) -> Result<Vec<Reply>> {
        let exchanged = timeout(limit, self.try_exchange(commands)).await;
        exchanged.unwrap_or_else(|_| Err(no_reply_within(limit)))
    }

    async fn try_exchange(&mut self, commands: &[Words<'_>]) -> Result<Vec<Reply>> {
        let mut bytes = Vec::new();
        for words in commands {
            write_command(&mut bytes, words);
        }
        self.stream.write_all(&bytes).await.map_err(|error| lost(&error))?;
        self.stream.flush().await.map_err(|error| lost(&error))?;
        let mut replies = Vec::with_capacity(commands.len());
        let mut chunk = [0; CHUNK];
        loop {
            while let Some(reply) = self.parser.reply()? {
                replies.push(reply);
            }
            if replies.len() >= commands.len() {
                return Ok(replies);
            }
            let count = self.stream.read(&mut chunk).await.map_err(|error| lost(&error))?;
            if count == 0 {
                return Err(lost(&io::ErrorKind::UnexpectedEof.into()));
            }
            self.parser.feed(chunk.get(..count).unwrap_or_default());
        }
    }

    /// The stream, for a driver of its own.
    ///
    /// # Errors
    /// When more has arrived than the replies to what was sent.
    pub(super) fn into_stream(self) -> Result<Stream> {
        if self.parser.is_idle() { Ok(self.stream) } else { Err(unexpected()) }
    }
}

/// Appends a command as it travels.
pub(super) fn write_command(out: &mut Vec<u8>, words: Words<'_>) {
    head(out, b'*', words.len());
    words.iter().for_each(|bytes| word(out, bytes));
}

pub(super) fn lost(error: &io::Error) -> Error {
    let kind = error.kind();
    Error::new(Code::StoreUnavailable, format!("the connection to Redis was lost ({kind})"))
}

pub(super) fn unexpected() -> Error {
    Error::new(Code::StoreUnavailable, "unexpected reply from Redis")
}

pub(super) fn no_reply_within(limit: Duration) -> Error {
    let message = format!("Redis did not answer within {} ms", limit.as_millis());
    Error::new(Code::StoreUnavailable, message)
}
