//! The public suite and the golden vectors, through the REST interface.

use std::future::{Ready, ready};
use std::sync::LazyLock;

use tollgate_redis::Redis;
use tollgate_redis::upstash::{NativeHttp, Upstash};
use tollgate_test_servers::{UpstashShim, shared};
use tollgate_testkit::conformance::Options;

use super::{shim, store, upstash};
use crate::store::run;

static SHIM: LazyLock<UpstashShim> = LazyLock::new(|| shim(shared::redis()));

fn options() -> Options {
    Options { injects_time: Some(true), ..Options::default() }
}

fn open() -> Ready<Redis<Upstash<NativeHttp>>> {
    ready(store(upstash(&SHIM.url())))
}

tollgate_testkit::store_conformance!(runner = run, open = open, options = options());
