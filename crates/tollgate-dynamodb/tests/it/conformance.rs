//! The conformance suite and the golden vectors, as the store comes and without its memory.

use tollgate_dynamodb::DynamoDb;
use tollgate_test_servers::shared::dynamodb;

use crate::support::{block_on, config, create, open, table};

/// The suite lives in the past: a server that removes what has expired since then would disturb it.
fn fresh_url() -> String {
    let table = table();
    create(dynamodb(), &table, "key", "S");
    dynamodb().url(&table)
}

async fn remembering() -> DynamoDb {
    open(&fresh_url()).await
}

async fn forgetful() -> DynamoDb {
    DynamoDb::open(config(&fresh_url()).remembered_keys(0)).await.unwrap()
}

mod with_memory {
    use super::*;
    tollgate_testkit::store_conformance!(runner = block_on, open = remembering);
}

mod without_memory {
    use super::*;
    tollgate_testkit::store_conformance!(runner = block_on, open = forgetful);
}
