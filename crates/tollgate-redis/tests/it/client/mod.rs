//! The client: order, failures, and what it says about them.

mod cluster;
mod faults;
mod inspection;
mod login;
mod pipelining;
mod runtimes;
mod sentinel;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tollgate_core::Result;
use tollgate_redis::client::Client;
use tollgate_redis::script::Script;
use tollgate_redis::transport::{Args, Call, Reply, Transport};
use tollgate_test_servers::Redis;

/// Long enough for anything that happens at all.
const SOON: Duration = Duration::from_secs(20);

/// A script that answers its argument and counts how often it ran.
fn counting() -> Arc<Script> {
    Script::new("redis.call('INCR', KEYS[1]) return ARGV[1]".to_owned())
}

/// Counts on `key`, and is answered by `argument`.
pub(crate) fn count(key: &str, argument: &str) -> Call {
    let mut args = Args::default();
    args.text(argument);
    Call::new(counting(), vec![key.to_owned()], args).with_text()
}

pub(crate) fn text(text: &str) -> Reply {
    Reply::Text(text.into())
}

fn open(url: &str) -> Client {
    Client::open(url.parse().unwrap()).unwrap()
}

/// What the server itself says about a number.
pub(crate) fn stored(redis: &Redis, key: &str) -> i64 {
    let reply = redis.client().unwrap().call(&["GET", key]).unwrap();
    reply.text().map_or(0, |text| text.parse().unwrap())
}

/// Calls until it works; until then, only permitted errors may come.
async fn recovers(client: &Client, key: &str, may_fail: impl Fn(&tollgate_core::Error) -> bool) {
    let deadline = Instant::now() + SOON;
    loop {
        match client.send(&count(key, "x")).await {
            Ok(reply) if reply == text("x") => return,
            Ok(reply) => panic!("{reply:?}"),
            Err(error) => {
                assert!(may_fail(&error), "{error}");
                assert!(Instant::now() < deadline, "not healthy: {error}");
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Sends calls, and collects the replies.
async fn send_all(client: &Client, calls: &[Call]) -> Vec<Result<Reply>> {
    let mut replies: Vec<Option<Result<Reply>>> = calls.iter().map(|_| None).collect();
    client.send_all(calls, |index, reply| replies[index] = Some(reply)).await;
    replies.into_iter().map(|reply| reply.expect("a call without a reply")).collect()
}

/// A call that must be over soon, whatever its outcome.
async fn soon(client: &Client, call: &Call) -> Result<Reply> {
    timeout(SOON, client.send(call)).await.expect("a call hangs")
}
