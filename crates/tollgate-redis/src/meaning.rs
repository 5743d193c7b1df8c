//! What error replies mean.

use tollgate_core::{Code, Error, Result};

use crate::transport::Reply;

/// A key holds what Tollgate never writes.
pub(crate) fn foreign() -> Error {
    let message =
        "a key holds something that Tollgate did not write; reset the key to start it afresh";
    Error::new(Code::CorruptState, message)
}

/// Keys of one call are on two nodes, because their slot moves.
pub(crate) fn between_nodes(fate: &str) -> Error {
    let message = format!("the keys are on their way between two nodes (TRYAGAIN); {fate}");
    Error::new(Code::ConflictExhausted, message)
}

/// Whether the node has looked at one key, or at one slot, and refused all that came with it: nothing was
/// run.
pub(crate) fn is_for_one_key(reply: &Result<Reply>) -> bool {
    matches!(reply, Ok(Reply::Error(text))
        if is_redirect(text) || is_foreign(text) || is_unserved(text) || is_forbidden_key(text))
}

/// Whether the node has sent a call elsewhere: nothing was run.
pub(crate) fn is_sent_on(reply: &Result<Reply>) -> bool {
    matches!(reply, Ok(Reply::Error(text)) if is_redirect(text))
}

/// Whether a node does not refuse keys of other nodes (see [`districts`](crate::districts)): nothing was run.
pub(crate) fn is_foreign(text: &str) -> bool {
    text.split(' ').next() == Some("FOREIGN")
}

/// Whether this user has no right to a key, while others may be his.
fn is_forbidden_key(text: &str) -> bool {
    text.starts_with("NOPERM") && text.contains("access") && text.contains("key")
}

/// Whether nobody serves a slot, while others may be served.
fn is_unserved(text: &str) -> bool {
    text.starts_with("CLUSTERDOWN Hash slot not served")
}

/// Whether another node is to be asked, or the same one a little later: nothing was run.
pub(crate) fn is_redirect(text: &str) -> bool {
    matches!(text.split(' ').next(), Some("MOVED" | "ASK" | "TRYAGAIN"))
}

/// What an error reply means. Only its first word is looked at and told: the rest may hold a key.
///
/// A server that is out of memory is full, not away: failing open would admit everybody as long as
/// it lasts. A server that cannot be written or asked at the moment (a replica, a cluster without
/// quorum, one that loads its data) is away, and did not run the call. One that says TRYAGAIN is not away.
#[must_use]
pub fn meaning_of(text: &str) -> Error {
    let kind = text.split([' ', '\r', '\n']).next().unwrap_or_default();
    let is_plain = kind.len() <= 32 && kind.bytes().all(|b| b.is_ascii_uppercase());
    let kind = if is_plain { kind } else { "ERR" };
    match kind {
        "OOM" => Error::new(
            Code::QueueFull,
            "Redis is out of memory and refuses writes; raise maxmemory or let keys expire",
        )
        .not_sent(),
        "WRONGTYPE" => foreign(),
        // A script that fails has met what no script writes; it is not the server that is away.
        "ERR" if text.contains("ACL failure in script") => lacks_a_right(),
        "ERR" if text.contains("user_script") => foreign(),
        "NOAUTH" | "WRONGPASS" => Error::new(
            Code::StoreUnavailable,
            format!(
                "Redis wants another user or password ({kind}): USER:PASSWORD@ before the host"
            ),
        )
        .not_sent(),
        "NOPERM" => lacks_a_right().not_sent(),
        // Whoever knows of the cluster has followed these until now.
        "MOVED" | "ASK" | "CROSSSLOT" => Error::new(
            Code::StoreUnavailable,
            format!("the cluster sends this elsewhere ({kind}); its URL is redis-cluster://"),
        )
        .not_sent(),
        // The cluster answers, and somebody moves its slots.
        "TRYAGAIN" => between_nodes("nothing was charged").not_sent(),
        "READONLY" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS"
        | "NOSCRIPT" | "BUSY" => {
            Error::new(Code::StoreUnavailable, format!("Redis cannot run this now ({kind})"))
                .not_sent()
        }
        _ => Error::new(Code::StoreUnavailable, format!("Redis answered with an error ({kind})")),
    }
}

fn lacks_a_right() -> Error {
    let message =
        "this user of Redis lacks a right or a key (NOPERM); docs/redis.md lists what is needed";
    Error::new(Code::StoreUnavailable, message)
}
