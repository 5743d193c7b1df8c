//! You learn: Tollgate on Redis through the client that you have already, here the `redis` crate. A
//! transport is twenty lines, and the public conformance suite proves yours.
//!
//! Run it: `cargo run -p tollgate-examples --example redis_own_client -- redis://127.0.0.1:6379`;
//! without a URL, a server is started.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use redis::Value;
use tollgate::algorithm::Gcra;
use tollgate::limiter::Limiter;
use tollgate::{Code, Error, Limit, Quota, Result};
use tollgate_redis::Redis;
use tollgate_redis::transport::{Call, Reply, Transport};
use tollgate_test_servers::shared;

// The transport begins.
struct OwnClient(redis::aio::MultiplexedConnection);

impl Transport for OwnClient {
    async fn send(&self, call: &Call) -> Result<Reply> {
        let words: Vec<&[u8]> = call.words().collect();
        let sent = self.0.clone().send_packed_command(redis::Cmd::new().arg(words)).await;
        // An error of the server is a reply. Any other leaves the outcome unknown.
        sent.map(reply_of).map_err(|error| Error::new(Code::StoreUnavailable, error.category()))
    }
}

fn reply_of(value: Value) -> Reply {
    match value {
        Value::Int(number) => Reply::Integer(number),
        Value::BulkString(bytes) => Reply::Text(bytes),
        Value::Array(values) => Reply::List(values.into_iter().map(reply_of).collect()),
        Value::ServerError(error) => Reply::Error(error.code().to_owned()),
        _ => Reply::Nil,
    }
}
// The transport ends.

async fn open(url: &str) -> redis::RedisResult<Redis<OwnClient>> {
    let client = redis::Client::open(url)?;
    Ok(Redis::over(OwnClient(client.get_multiplexed_async_connection().await?)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> core::result::Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| shared::redis().url());
    let limiter = Limiter::new(open(&url).await?);
    let limit = Limit::new("hello", Gcra::new(Quota::per_minute(2))?)?;
    for _ in 0..3 {
        let decision = limiter.check(limit.charge("ada")).await?;
        println!("{}, {} left", decision.verdict.as_str(), decision.remaining);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::sync::LazyLock;

    use tokio::runtime::Runtime;
    use tollgate_testkit::conformance::Options;

    use super::*;

    /// One runtime for all tests: connections belong to the one that made them.
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

    fn run<F: Future>(future: F) -> F::Output {
        RUNTIME.block_on(future)
    }

    async fn start() -> Redis<OwnClient> {
        open(&shared::redis().url()).await.unwrap()
    }

    fn options() -> Options {
        Options { injects_time: Some(true), ..Options::default() }
    }

    tollgate_testkit::store_conformance!(runner = run, open = start, options = options());

    #[test]
    fn the_transport_has_at_most_twenty_lines() {
        let source = include_str!("redis_own_client.rs");
        let transport = source.lines().skip_while(|line| *line != "// The transport begins.");
        let transport = transport.take_while(|line| *line != "// The transport ends.");
        let is_code = |line: &&str| !line.is_empty() && !line.trim_start().starts_with("//");
        let lines = transport.filter(is_code).count();
        assert!((10..=20).contains(&lines), "{lines}");
    }
}
