//! Decided in Rust, swapped in if nothing changed: for what no script decides.
//!
//! States of another quota are carried over here, charges are settled, and algorithms without a
//! script run here. It takes two round trips and may lose a race to another process. Waiting
//! callers of one process share rounds.

use std::sync::Arc;

use tollgate_core::Result;
use tollgate_core::store::cas::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};
use tollgate_core::store::{CallContext, CallLimit, TimeSource};

use super::ScriptRunner;
use crate::error_reply::is_try_again;
use crate::text::{held, state_text, to_hold};
use crate::transport::{Args, Call, Reply, Transport};

/// How many keys one swap may write.
const KEYS_MAX: u32 = 1_000;
/// The text of a value that Tollgate did not write: the adapter refuses it as corrupt.
const FOREIGN: &str = "?";

/// The server as a table that compares and swaps, by one script.
pub(super) struct Swapping<T>(pub(super) Arc<ScriptRunner<T>>);

impl<T: Transport> Versioned for Swapping<T> {
    fn capability(&self) -> VersionedCapability {
        VersionedCapability::multi_key(KEYS_MAX).with_own_clock().with_long_logs()
    }

    fn call_limit(&self) -> Option<&CallLimit> {
        self.0.transport.call_limit()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        self.0.snapshot(keys).await
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        let mut args = Args::default();
        let mut names = Vec::with_capacity(writes.len());
        for write in writes {
            names.push(self.0.layout.rename(write.key.to_owned()));
            match write.expect {
                Some(Version::Text(held)) => args.text(held),
                Some(Version::Number(_)) | None => args.text("n"),
            }
            args.text(&to_hold(write.value));
            args.unsigned(write.keep_until.div_ceil(1_000));
        }
        let call = Call::new(self.0.scripts.swap.clone(), names, args);
        // The round has recorded its facts.
        let reply = self.0.send_now(&call, CallContext::store_clock()).await;
        // A slot is being moved: nothing was written, and the attempt is repeated.
        if is_try_again(&reply) {
            return Ok(false);
        }
        Ok(reply?.ok()? == Reply::Integer(1))
    }
}

impl<T: Transport> ScriptRunner<T> {
    /// The values of keys, and the server's time.
    pub(super) async fn snapshot(&self, keys: &[&str]) -> Result<Snapshot> {
        let names: Vec<String> =
            keys.iter().map(|key| self.layout.rename((*key).to_owned())).collect();
        let (now, values) = self.read(&names, TimeSource::StoreClock).await?;
        let entries = values.iter().map(entry_of).collect();
        Ok(Snapshot { entries, clock: Some(now.reading()) })
    }
}

/// A value with what it holds as its version: two equal states are one to every step.
fn entry_of(value: &Reply) -> Option<Entry> {
    if *value == Reply::Nil {
        return None;
    }
    let version = held(value).unwrap_or_else(|| FOREIGN.to_owned());
    let text = state_text(value).unwrap_or_else(|| FOREIGN.to_owned());
    Some(Entry { text, version: Version::Text(version.into()) })
}
