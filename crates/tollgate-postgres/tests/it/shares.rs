//! Request ids are kept in one table for all policies: none takes the room of the others.

use tollgate_core::{Code, Limit, Result};
use tollgate_postgres::Postgres;
use tollgate_test_servers::PgVersion;
use tollgate_test_servers::shared::postgres;

use crate::support::{block_on, config, policy, spent, take, take_once};

const MAX: u64 = 320;

/// Whether a charge under a request id was admitted: there may be no room for the id.
fn admitted(result: Result<bool>) -> bool {
    match result {
        Ok(is_admitted) => is_admitted,
        Err(error) => {
            assert_eq!(error.code(), Code::QueueFull, "{error}");
            false
        }
    }
}

async fn taken(store: &Postgres, limit: &Limit, key: &str, id: &str) -> bool {
    admitted(take_once(store, limit.charge(key), id).await)
}

/// One key gets a sixteenth of the room, and one policy half of it. The others find room, and every
/// id that was accepted is still known.
#[test]
fn a_flood_of_ids_leaves_room_for_other_keys_and_policies() {
    let config = config(&postgres(PgVersion::V15).url()).max_request_ids(MAX);
    let (flooded, other) = (policy("flooded", 10_000), policy("other", 10_000));
    block_on(async {
        let store = Postgres::connect(config).await.unwrap();
        let mut of_one_key = 0;
        for id in 0..MAX {
            of_one_key += u64::from(taken(&store, &flooded, "one", &id.to_string()).await);
        }
        assert_eq!(of_one_key, MAX / 16);
        let mut of_policy = of_one_key;
        for key in 0..MAX {
            of_policy += u64::from(taken(&store, &flooded, &key.to_string(), "id").await);
        }
        assert_eq!(of_policy, MAX / 2);
        for key in 0..MAX / 4 {
            assert!(taken(&store, &other, &key.to_string(), "id").await, "{key} of another policy");
        }
        // A replay needs no room, and a request without an id none.
        assert!(taken(&store, &flooded, "one", "0").await);
        assert!(take(&store, &flooded, "one").await.unwrap());
        assert_eq!(spent(&store, &flooded, "one").await, of_one_key + 1);
    });
}
