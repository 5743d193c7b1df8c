//! Request ids are kept in one table for all policies: none takes the room of the others.

use tollgate_core::store::{Bounds, CallContext, Store, WhenIdsFull};
use tollgate_core::{Charge, Code, Limit, Receipt, RequestId, Result};
use tollgate_postgres::Postgres;
use tollgate_test_servers::shared::postgres;
use tollgate_test_servers::{Error, PgVersion, wait};

use crate::support::{TEST_TIMEOUT, block_on, config, policy, spent, take, take_once};

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
    let (flooded, other) = (refusing("flooded", 10_000), refusing("other", 10_000));
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

/// A policy that refuses request ids for which there is no room.
fn refusing(name: &str, units: u64) -> Limit {
    policy(name, units).bounded(Bounds::new().when_ids_full(WhenIdsFull::Refuse))
}

/// The oldest ids make room: of the key and of the policy. That of a settlement does not.
#[test]
fn the_oldest_ids_are_forgotten_and_counted() {
    let config = config(&postgres(PgVersion::V15).url()).max_request_ids(MAX);
    let (flooded, other) = (policy("flooded", 10_000), policy("other", 10_000));
    block_on(async {
        let store = Postgres::connect(config).await.unwrap();
        let is_new = async |charge: Charge<'_>, id: &str| {
            let id = RequestId::new(id).unwrap();
            let cx = CallContext::store_clock();
            store.admit(&charge.request_id(id), cx).await.unwrap().replayed.is_none()
        };
        for key in 0..20_u64 {
            assert!(is_new(other.charge(&key.to_string()), "early").await);
        }
        let refund = flooded.charge("one").refund(Receipt::Newest);
        assert!(is_new(flooded.charge("one"), "charge").await);
        assert!(is_new(refund, "refund").await);
        for id in 0..MAX {
            assert!(is_new(flooded.charge("one"), &id.to_string()).await, "{id}");
            assert!(!is_new(flooded.charge("one"), &id.to_string()).await, "{id}");
        }
        for key in 0..2 * MAX {
            assert!(is_new(flooded.charge(&key.to_string()), "id").await);
        }
        let forgotten = || match store.forgotten_request_ids() {
            enough if enough >= 2 * MAX => Ok(()),
            few => Err(Error::new(format!("{few} are forgotten"))),
        };
        // Other threads of the runtime delete.
        wait::until_ok(TEST_TIMEOUT, forgotten).unwrap();
        for key in 0..20_u64 {
            assert!(!is_new(other.charge(&key.to_string()), "early").await, "{key}");
        }
        assert!(!is_new(refund, "refund").await, "the refund is made once");
        assert!(is_new(flooded.charge("one"), "0").await, "forgotten");
    });
}
