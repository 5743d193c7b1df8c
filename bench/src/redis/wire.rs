//! Bytes on the wire, by hand: the calls that Tollgate would send, and counting replies.

use std::sync::{Mutex, PoisonError};

use tokio::runtime::Runtime;
use tollgate::store::{CallContext, Store as _};
use tollgate::{Admission, Code, Error, Limit};
use tollgate_redis::Redis;
use tollgate_redis::transport::{Call, Reply, Transport};
use tollgate_test_servers::Redis as Server;

use crate::Result;

/// Commands one after another, ready to be written.
#[derive(Debug, Default)]
pub(super) struct Commands {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Commands {
    /// Commands of these words.
    pub(super) fn of(words: &[&[u8]]) -> Self {
        let mut commands = Self::default();
        commands.push(words.iter().copied());
        commands
    }

    pub(super) fn push<'w>(&mut self, words: impl Iterator<Item = &'w [u8]>) {
        let words: Vec<&[u8]> = words.collect();
        self.bytes.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            self.bytes.extend(format!("${}\r\n", word.len()).bytes());
            self.bytes.extend_from_slice(word);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.ends.push(self.bytes.len());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of `count` commands from the one at `from` on.
    pub(super) fn slice(&self, from: usize, count: usize) -> &[u8] {
        let start = if from == 0 { 0 } else { self.ends[from - 1] };
        &self.bytes[start..self.ends[from + count - 1]]
    }
}

/// A transport that sends nothing and keeps the calls it was given.
#[derive(Debug, Default)]
struct Capture(Mutex<Vec<Call>>);

impl Transport for Capture {
    async fn send(&self, call: &Call) -> tollgate::Result<Reply> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
        Err(Error::new(Code::StoreUnavailable, "captured").not_sent())
    }
}

/// The calls that Tollgate makes for lone callers: one per key.
pub(super) fn calls(
    runtime: &Runtime,
    limit: &Limit,
    keys: impl Iterator<Item = String>,
) -> Vec<Call> {
    let store = Redis::over(Capture::default());
    runtime.block_on(async {
        for key in keys {
            let charges = [limit.charge(&key)];
            // Fails by design: nothing is sent.
            let _ = store.admit(&Admission::of(&charges), CallContext::store_clock()).await;
        }
    });
    let mut calls = store.transport().0.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::take(&mut *calls)
}

/// Loads the script of these calls into the servers.
pub(super) fn teach<'a>(calls: &[Call], nodes: impl IntoIterator<Item = &'a Server>) -> Result<()> {
    let text = calls.first().ok_or("no call was captured")?.script().text();
    for node in nodes {
        let mut client = node.client().map_err(|error| error.to_string())?;
        client.call(&["SCRIPT", "LOAD", text]).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Counts replies in bytes that arrive in pieces: integers, status lines and flat lists of
/// integers, which is all that the benchmarked commands answer.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// Lines of the current list that are still missing.
    missing: usize,
    /// The beginning of a line, and the digits of a list's length.
    kind: Option<u8>,
    length: usize,
}

impl Counter {
    /// How many replies end in these bytes.
    ///
    /// # Errors
    /// When the server answered with an error.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut replies = 0;
        for byte in bytes {
            match (self.kind, byte) {
                (None, kind) => (self.kind, self.length) = (Some(*kind), 0),
                (Some(b'-'), b'\n') => return Err("the server answered with an error".into()),
                (Some(b'*'), b'\n') => {
                    self.kind = None;
                    self.missing = self.length;
                    replies += usize::from(self.missing == 0);
                }
                (Some(_), b'\n') => {
                    self.kind = None;
                    self.missing = self.missing.saturating_sub(1);
                    replies += usize::from(self.missing == 0);
                }
                (Some(b'*'), digit) if digit.is_ascii_digit() => {
                    self.length = self.length * 10 + usize::from(digit - b'0');
                }
                _ => {}
            }
        }
        Ok(replies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_replies_however_they_are_cut() {
        let text = b"*3\r\n:1\r\n:0\r\n:-7\r\n+PONG\r\n*1\r\n:12\r\n*12\r\n";
        for cut in 0..text.len() {
            let mut counter = Counter::default();
            let (head, tail) = text.split_at(cut);
            let replies = counter.feed(head).unwrap() + counter.feed(tail).unwrap();
            assert_eq!(replies, 3, "cut at {cut}");
        }
        assert!(Counter::default().feed(b"-NOSCRIPT no\r\n").is_err());
    }

    #[test]
    fn slices_are_whole_commands() {
        let mut commands = Commands::of(&[b"PING"]);
        commands.push([&b"GET"[..], b"k"].into_iter());
        assert_eq!(commands.slice(0, 1), b"*1\r\n$4\r\nPING\r\n");
        assert_eq!(commands.slice(1, 1), b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        assert_eq!(commands.slice(0, 2).len(), 14 + 20);
    }
}
