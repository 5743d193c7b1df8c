//! The conformance suite and the golden vectors.

use std::future::{Ready, ready};

use tollgate_denokv::DenoKv;
use tollgate_testkit::servers::shared::denokv;

use crate::support::{block_on, open};

fn opened() -> Ready<DenoKv> {
    ready(open(&denokv().url()))
}

tollgate_testkit::store_conformance!(runner = block_on, open = opened);
