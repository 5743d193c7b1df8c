//! WATCH, MULTI, EXEC: for algorithms that have no script.
//!
//! The step runs in Rust between a read and a transaction that fails if another client wrote
//! meanwhile. It needs a connection of its own, because WATCH belongs to a connection; transports
//! without one answer `unsupported`. Waiting callers of one process are combined, so only processes
//! race.
//!
//! The transaction begins with the read, in the same round trip, and the writes follow when the
//! server has confirmed that: for a user without the right to MULTI, a SET is only a SET.

use std::sync::Arc;

use tollgate_core::store::cas::{Snapshot, Swap, Version, Versioned, VersionedCapability};
use tollgate_core::store::{CallContext, Evidence, Store as _};
use tollgate_core::{Admission, Code, Error, Result};

use super::swap::KEYS_MAX;
use super::{Inner, ScriptRunner};
use crate::error_reply::{error_of, is_redirect};
use crate::text::held;
use crate::transport::{Command, Reply, Session, Transport};

/// The least time a value is kept beyond its meaning: see the scripts.
const KEEP_MIN_MS: u64 = 3_600_000;
/// Stands before the error of an `EXEC` that was refused.
const ABORTED: &str = "EXECABORT Transaction discarded because of: ";

/// The server as a table that compares and swaps, by transactions.
pub(super) struct Watching<T>(pub(super) Arc<ScriptRunner<T>>);

impl<T: Transport> Inner<T> {
    pub(super) async fn watch(
        &self,
        admission: &Admission<'_>,
        cx: CallContext<'_>,
    ) -> Result<Evidence> {
        if self.runner.transport.sessions().is_none() {
            let message = "an algorithm without a script needs WATCH, which this transport lacks";
            return Err(Error::new(Code::Unsupported, message).not_sent());
        }
        if self.spans_slots(admission.charges()) {
            let message = "algorithms without a script cannot be charged over several hash slots";
            return Err(Error::new(Code::Unsupported, message).not_sent());
        }
        self.watching.admit(admission, cx).await
    }
}

impl<T: Transport> Versioned for Watching<T> {
    fn capability(&self) -> VersionedCapability {
        VersionedCapability::multi_key(KEYS_MAX).with_own_clock()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        self.0.snapshot(keys).await
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        let names: Vec<String> =
            writes.iter().map(|write| self.0.layout.rename(write.key.to_owned())).collect();
        let sessions = self.0.transport.sessions().ok_or_else(no_session)?;
        let first = names.first().map_or("", String::as_str);
        let mut session = sessions.open(first).await?;
        let Some(now_ms) = begin(&mut *session, writes, &names).await? else {
            // An empty transaction. It ends the watch.
            let end = [Command::of(["EXEC"])];
            session.run(&end).await.map_err(Error::not_sent)?;
            return Ok(false);
        };
        let mut commands = Vec::with_capacity(writes.len() + 1);
        for (write, name) in writes.iter().zip(&names) {
            let keep = write.keep_until.div_ceil(1_000).saturating_sub(now_ms).max(KEEP_MIN_MS);
            commands.push(if write.value == "[]" {
                Command::of(["DEL", name])
            } else {
                Command::of(["SET", name, write.value, "PX", &keep.to_string()])
            });
        }
        commands.push(Command::of(["EXEC"]));
        let mut replies = session.run(&commands).await?;
        match replies.pop() {
            Some(Reply::List(_)) => Ok(true),
            Some(Reply::Nil) => Ok(false),
            Some(Reply::Error(text)) => {
                // EXECABORT: some command was refused, so none ran; its own error says why, or that
                // of EXEC itself.
                let cause = replies.into_iter().find_map(|reply| match reply {
                    Reply::Error(text) => Some(text),
                    _ => None,
                });
                let cause = cause.unwrap_or(text);
                let cause = cause.strip_prefix(ABORTED).unwrap_or(&cause);
                // The keys were moved meanwhile: the next attempt finds them.
                if is_redirect(cause) { Ok(false) } else { Err(error_of(cause).not_sent()) }
            }
            _ => Err(super::reply::unreadable()),
        }
    }
}

/// Watches the keys and begins a transaction: the server's time in milliseconds, if the keys still
/// hold what was read and are on one node.
async fn begin(
    session: &mut dyn Session,
    writes: &[Swap<'_>],
    names: &[String],
) -> Result<Option<u64>> {
    let all = |verb: &'static str| {
        Command::of(core::iter::once(verb).chain(names.iter().map(String::as_str)))
    };
    let commands = [all("WATCH"), all("MGET"), Command::of(["TIME"]), Command::of(["MULTI"])];
    let replies = session.run(&commands).await.map_err(Error::not_sent)?;
    // A slot is being moved: the attempt is lost, and repeated.
    if replies.iter().any(|reply| matches!(reply, Reply::Error(text) if is_redirect(text))) {
        return Ok(None);
    }
    let replies: Vec<Reply> =
        replies.into_iter().map(Reply::ok).collect::<Result<_>>().map_err(Error::not_sent)?;
    let [_, Reply::List(values), Reply::List(time), _] = &*replies else {
        return Err(super::reply::unreadable().not_sent());
    };
    let expected = writes.iter().map(|write| match write.expect {
        Some(Version::Text(text)) => text.to_string(),
        Some(Version::Number(_)) | None => "n".to_owned(),
    });
    if !values.iter().map(held).eq(expected.map(Some)) {
        return Ok(None);
    }
    let seconds = match time.first() {
        Some(Reply::Text(text)) => {
            core::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok())
        }
        _ => None,
    };
    seconds
        .map(|seconds| Some(seconds * 1_000))
        .ok_or_else(|| super::reply::unreadable().not_sent())
}

fn no_session() -> Error {
    Error::new(Code::Unsupported, "this transport has no connection of its own for WATCH")
        .not_sent()
}
