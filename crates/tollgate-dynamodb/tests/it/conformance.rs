//! The conformance suite and the golden vectors, with and without the write cache.

use tollgate_dynamodb::DynamoDb;
use tollgate_test_servers::shared::dynamodb;

use crate::support::{block_on, config, create, open, table};

/// The suite lives in the past: a server that removes what has expired since then would disturb it.
fn fresh_url() -> String {
    let table = table();
    create(dynamodb(), &table, "key", "S");
    dynamodb().url(&table)
}

mod with_cache {
    use super::*;
    tollgate_testkit::store_conformance!(runner = block_on, open = || async { open(&fresh_url()) });
}

mod without_cache {
    use super::*;
    tollgate_testkit::store_conformance!(
        runner = block_on,
        open = || async { DynamoDb::open(config(&fresh_url()).remembered_keys(0)).unwrap() }
    );
}
