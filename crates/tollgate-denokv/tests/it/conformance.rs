//! The conformance suite and the golden vectors.

use std::future::{Ready, ready};

use tollgate_denokv::DenoKv;
use tollgate_test_servers::shared::denokv;
use tollgate_testkit::conformance::Options;

use crate::support::{block_on, config};

const RECORDS_MAX: usize = 60;

fn opened() -> Ready<DenoKv> {
    ready(DenoKv::open(config(&denokv().url()).max_request_ids(RECORDS_MAX)).unwrap())
}

fn options() -> Options {
    Options { records_max: Some(RECORDS_MAX), ..Options::default() }
}

tollgate_testkit::store_conformance!(runner = block_on, open = opened, options = options());
