//! The store over the REST interface of Upstash, in front of a real server.

mod conformance;
mod custom;
mod encrypted;
mod faults;
mod waiting;

use std::time::Duration;

use tollgate_redis::Redis;
use tollgate_redis::transport::Transport;
use tollgate_redis::upstash::{NativeHttp, Upstash};
use tollgate_test_servers::{Redis as Server, UpstashShim};

const TOKEN: &str = "s3cret-t0ken";

/// Long enough for anything that happens at all: several tests share a machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(20);

fn shim(redis: &Server) -> UpstashShim {
    UpstashShim::to(redis, TOKEN).unwrap()
}

fn with_long_timeouts() -> NativeHttp {
    NativeHttp::new().unwrap().connect_timeout(LONG_TIMEOUT).reply_timeout(LONG_TIMEOUT)
}

fn upstash(url: &str) -> Upstash<NativeHttp> {
    Upstash::over(with_long_timeouts(), url, TOKEN).unwrap()
}

fn store<T: Transport>(transport: T) -> Redis<T> {
    Redis::over(transport)
}
