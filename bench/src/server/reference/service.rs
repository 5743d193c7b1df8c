//! The access pattern of the reference service, as a gRPC service of its own.
//!
//! Redis: one command that looks for the request id, then one script that reads the bucket, writes
//! it, and writes the result under the request id; all keys live for a minute. PostgreSQL: a
//! serializable transaction that looks for the request id, locks the bucket, writes it and the
//! result, and is tried again up to three times after a conflict. It runs in a process of its own.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use redis::aio::MultiplexedConnection;

use super::super::wire::{Fields, Message, Value};
use super::super::{floor, grpc};
use crate::Result;
use crate::postgres::{Rival, reference_rival};

/// The subcommand of the process.
pub(crate) const CHILD: &str = "child-reference";
/// The method.
pub(super) const PATH: &str = "/reference.RateLimiter/Acquire";

pub(super) const CAPACITY: u64 = 1_000_000_000;
const REFILL_PER_SECOND: u64 = 0;
const KEPT_SECONDS: u64 = 60;

const SCRIPT: &str = "\
local capacity, refill, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local cost, kept = tonumber(ARGV[4]), tonumber(ARGV[5])
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'last_refill_at')
local tokens, last = tonumber(bucket[1]) or capacity, tonumber(bucket[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - last) / 1000 * refill)
local status, wait = 'DENIED', 0
if tokens >= cost then
  tokens, status = tokens - cost, 'ALLOWED'
elseif refill > 0 then
  wait = math.ceil((cost - tokens) / refill * 1000)
end
redis.call('HSET', KEYS[1], 'tokens', tokens, 'last_refill_at', now, 'capacity', capacity,
  'refill_rate', refill)
redis.call('EXPIRE', KEYS[1], kept)
redis.call('HSET', KEYS[2], 'status', status, 'tokens_remaining', tokens, 'wait_time_ms', wait)
redis.call('EXPIRE', KEYS[2], kept)
return {status, tostring(tokens), wait}";

/// What it stores in.
enum Backend {
    /// One connection, which sends what waits together.
    Redis(MultiplexedConnection, String),
    Postgres(Box<Rival>),
}

/// Runs the service: the address, and the URL of the backend.
pub(crate) fn child(words: &[String]) -> Result<()> {
    let [addr, url] = words else {
        return Err("an address and a URL are needed".into());
    };
    floor::runtime(false)?.block_on(async {
        let backend = Arc::new(connect(url).await?);
        let listener = floor::listen(addr).await?;
        grpc::serve(listener, move |message| {
            let backend = Arc::clone(&backend);
            async move { backend.acquire(&message).await }
        })
        .await
    })
}

async fn connect(url: &str) -> Result<Backend> {
    if !url.starts_with("redis:") {
        return Ok(Backend::Postgres(Box::new(reference_rival(url).await?)));
    }
    let connected = async {
        let client = redis::Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).to_owned();
        let sha: String = load.query_async(&mut connection).await?;
        Ok(Backend::Redis(connection, sha))
    };
    connected.await.map_err(|error: redis::RedisError| error.to_string())
}

impl Backend {
    /// The reply: whether it is allowed, and the units that remain.
    async fn acquire(&self, message: &Bytes) -> Bytes {
        let (key, id) = request(message);
        let decided = match self {
            Self::Redis(connection, sha) => over_redis(connection.clone(), sha, &key, &id).await,
            Self::Postgres(rival) => {
                let number = u128::from_str_radix(&id, 16).unwrap_or_default();
                rival.decide(&key, number).await.map(|_| ("ALLOWED".to_owned(), 0))
            }
        };
        match decided {
            Some((status, left)) => {
                let allowed = u64::from(status == "ALLOWED");
                Message::default().number(1, allowed).number(2, left).framed()
            }
            // Failed after all retries.
            None => Message::default().number(1, 0).framed(),
        }
    }
}

/// The key and the request id.
fn request(message: &[u8]) -> (String, String) {
    let text = |field| {
        let value = Fields::of(message).find(|(one, _)| *one == field);
        match value {
            Some((_, Value::Bytes(bytes))) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        }
    };
    (text(1), text(3))
}

async fn over_redis(
    mut connection: MultiplexedConnection,
    sha: &str,
    key: &str,
    id: &str,
) -> Option<(String, u64)> {
    let (bucket, known) = (format!("bucket:{key}"), format!("idempotency:{id}"));
    let look = redis::cmd("HGETALL").arg(&known).to_owned();
    let mut result: HashMap<String, String> = look.query_async(&mut connection).await.ok()?;
    if let Some(status) = result.remove("status") {
        return Some((status, 0));
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
    let mut script = redis::cmd("EVALSHA");
    script.arg(sha).arg(2).arg(&bucket).arg(&known).arg(CAPACITY).arg(REFILL_PER_SECOND);
    script.arg(now.as_millis() as u64).arg(1).arg(KEPT_SECONDS);
    let (status, left, _): (String, f64, u64) = script.query_async(&mut connection).await.ok()?;
    Some((status, left as u64))
}

/// The process.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) url: String,
}

impl tollgate_test_servers::ServerSpec for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn command(
        &self,
        resources: &tollgate_test_servers::Resources,
    ) -> tollgate_test_servers::Result<std::process::Command> {
        let mut command = tollgate_test_servers::server_command(std::env::current_exe()?)?;
        command.args([CHILD, &resources.addr().to_string(), &self.url]);
        Ok(command)
    }

    fn probe(
        &self,
        resources: &tollgate_test_servers::Resources,
    ) -> tollgate_test_servers::Result<()> {
        std::net::TcpStream::connect(resources.addr())?;
        Ok(())
    }
}
