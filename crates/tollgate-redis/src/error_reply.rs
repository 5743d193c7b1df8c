//! What error replies mean.

use tollgate_core::{Code, Error, Result};

use crate::transport::Reply;

/// A key holds a value that Tollgate never writes.
pub(crate) fn corrupt() -> Error {
    let message =
        "a key holds a value that Tollgate did not write; reset the key to start it afresh";
    Error::new(Code::CorruptState, message)
}

/// Whether the keys of a call are on two nodes because their slot is being moved: nothing was run.
pub(crate) fn is_try_again(reply: &Result<Reply>) -> bool {
    matches!(reply, Ok(Reply::Error(text)) if text.starts_with("TRYAGAIN"))
}

/// Whether this user has no right to a key, while it may have one to others: nothing was run.
pub(crate) fn is_forbidden_key(reply: &Result<Reply>) -> bool {
    matches!(reply, Ok(Reply::Error(text))
        if text.starts_with("NOPERM") && text.contains("access") && text.contains("key"))
}

/// The error that an error reply stands for. Only its first word is read and shown: the rest may
/// hold a key.
///
/// A server that is out of memory is full, which is no outage: failing open would admit every
/// caller as long as it lasts. A server that cannot be written or read at the moment (a replica, a
/// cluster without quorum, one that loads its data) is unavailable, and did not run the call.
/// TRYAGAIN is no outage.
#[must_use]
pub(crate) fn error_of(text: &str) -> Error {
    let kind = text.split([' ', '\r', '\n']).next().unwrap_or_default();
    let is_plain = kind.len() <= 32 && kind.bytes().all(|b| b.is_ascii_uppercase());
    let kind = if is_plain { kind } else { "ERR" };
    match kind {
        "OOM" => Error::new(
            Code::StoreFull,
            "Redis is out of memory (OOM) and refuses writes; raise maxmemory or let keys expire",
        )
        .not_sent(),
        "WRONGTYPE" => corrupt(),
        // A script that fails has found a value that no script writes; that is no outage.
        "ERR" if is_acl_failure(text) => lacks_a_right(),
        "ERR" if text.contains("user_script") => corrupt(),
        "NOAUTH" | "WRONGPASS" => Error::new(
            Code::StoreUnavailable,
            format!(
                "Redis requires another user or password ({kind}): USER:PASSWORD@ before the host"
            ),
        )
        .not_sent(),
        "NOPERM" => lacks_a_right().not_sent(),
        // The client of a cluster has followed these.
        "MOVED" | "ASK" | "CROSSSLOT" => Error::new(
            Code::StoreUnavailable,
            format!("the cluster sends this elsewhere ({kind}); its URL is redis-cluster://"),
        )
        .not_sent(),
        // The cluster answers: a slot is being moved.
        "TRYAGAIN" => {
            let message = "the keys are on two nodes (TRYAGAIN); nothing was charged";
            Error::new(Code::ConflictExhausted, message).not_sent()
        }
        "READONLY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS"
        | "NOSCRIPT" | "BUSY" => {
            Error::new(Code::StoreUnavailable, format!("Redis cannot run this now ({kind})"))
                .not_sent()
        }
        _ => Error::new(Code::StoreUnavailable, format!("Redis answered with an error ({kind})")),
    }
}

/// Whether a script ran a command that this user may not run, in the words of Redis 7.0 and of
/// later versions.
fn is_acl_failure(text: &str) -> bool {
    text.contains("can't run this command") || text.contains("ACL failure in script")
}

fn lacks_a_right() -> Error {
    let message =
        "this user of Redis lacks a right or a key (NOPERM); docs/redis.md lists what is needed";
    Error::new(Code::StoreUnavailable, message)
}
