//! The whole suite over the smallest transport.

use core::future::{Ready, ready};

use tollgate_testkit::conformance::Options;
use tollgate_testkit::store_conformance;

use super::Plain;
use crate::Redis;

fn open() -> Ready<Redis<Plain>> {
    ready(Redis::over(Plain::connect()))
}

fn options() -> Options {
    Options { injects_time: Some(true), ..Options::default() }
}

store_conformance!(runner = tollgate_testkit::runtime::block_on, open = open, options = options());
