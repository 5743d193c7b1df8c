//! The sweep deletes expired values, and no others.

use std::path::Path;
use std::time::Duration;

use tollgate_core::algorithm::Gcra;
use tollgate_core::store::{Bounds, CallContext, Store, WhenIdsFull};
use tollgate_core::{Admission, Charge, Code, Limit, Quota, Receipt};
use tollgate_test_servers::{Error, wait};

use crate::support::{
    NOW, SECOND, TEST_TIMEOUT, admitted, block_on, config, connect, file, limit, open, policy,
    spent, sql, take, take_once,
};

/// Thousands of values that expired in 1970, over several pages.
const OLD: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
        INSERT INTO tollgate_limits SELECT CAST('old ' || i AS BLOB), '[]', 1 FROM n;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
        INSERT INTO tollgate_once (key, value, expires)
        SELECT CAST('old ' || i AS BLOB), '[]', 1 FROM n;
    UPDATE tollgate_meta SET number = number + 2500 WHERE name = 'request_ids'";

fn number(path: &Path, query: &str) -> u64 {
    let number: i64 = sql(path).query_row(query, [], |row| row.get(0)).unwrap();
    u64::try_from(number).unwrap()
}

fn known_ids(path: &Path) -> u64 {
    number(path, "SELECT number FROM tollgate_meta WHERE name = 'request_ids'")
}

fn kept_ids(path: &Path) -> u64 {
    number(path, "SELECT count(*) FROM tollgate_once")
}

#[test]
fn what_has_expired_is_deleted_and_nothing_else() {
    let (_folder, path) = file();
    let store = connect(config(&path).sweep_every(None));
    let many = limit(1_000);
    block_on(async {
        assert!(take_once(&store, many.charge("live"), "id").await.unwrap());
        sql(&path).execute_batch(OLD).unwrap();
        assert_eq!(store.sweep(NOW).await.unwrap(), 5_000);
        assert_eq!(store.sweep(NOW).await.unwrap(), 0);
        assert_eq!((known_ids(&path), kept_ids(&path)), (1, 1));
        assert_eq!(spent(&store, &many, "live").await, 1);
        assert!(take_once(&store, many.charge("live"), "id").await.unwrap());
        assert_eq!(spent(&store, &many, "live").await, 1, "the request id was forgotten");
    });
}

/// A value stays for the slack after it means nothing any more.
#[test]
fn what_expired_within_the_slack_stays() {
    let (_folder, path) = file();
    let store = connect(config(&path).sweep_every(None));
    let brief = Limit::new("brief", Gcra::new(Quota::per_second(1)).unwrap()).unwrap();
    block_on(async {
        let charges = [brief.charge("a")];
        assert!(admitted(&store, &Admission::of(&charges), NOW).await.unwrap());
        let fresh_at = NOW + SECOND;
        assert_eq!(store.sweep(fresh_at + 60 * SECOND - 1).await.unwrap(), 0);
        assert_eq!(store.sweep(fresh_at + 60 * SECOND).await.unwrap(), 1);
    });
}

#[test]
fn the_sweep_in_the_background_reclaims_by_itself() {
    let (_folder, path) = file();
    let every = Some(Duration::from_millis(1));
    let store = connect(config(&path).sweep_every(every));
    let many = limit(1_000);
    sql(&path).execute_batch(OLD).unwrap();
    // What has expired is judged by the readings that decide.
    assert!(block_on(take(&store, &many, "a")).unwrap());
    let gone = || match number(&path, "SELECT count(*) FROM tollgate_limits") + kept_ids(&path) {
        1 => Ok(()),
        left => Err(Error::new(format!("{left} are left"))),
    };
    wait::until_ok(TEST_TIMEOUT, gone).unwrap();
    assert_eq!(block_on(spent(&store, &many, "a")), 1);
}

/// Request ids make room for each other as they expire, without any sweep.
#[test]
fn expired_ids_make_room_and_the_number_is_exact() {
    let (_folder, path) = file();
    let settings = || config(&path).sweep_every(None).max_request_ids(10);
    let stores = [connect(settings()), connect(settings())];
    // Of a policy each: one policy alone takes at most half of the room.
    let limits: Vec<_> = (0..12).map(|number| refusing(&format!("p{number}"), 1_000)).collect();
    block_on(async {
        let mut now = NOW;
        for round in 0..4 {
            for (number, store) in (0..12).zip(stores.iter().cycle()) {
                let id = format!("{round}-{number}");
                let once = tollgate_core::RequestId::new(&id).unwrap();
                let charges = [limits[number].charge("a")];
                let admission = Admission::of(&charges).request_id(once);
                let refused = admitted(store, &admission, now).await.err();
                let code = refused.map(|error| error.code());
                let full = (number >= 10).then_some(Code::QueueFull);
                assert_eq!(code, full, "{number} in round {round}");
            }
            assert_eq!((known_ids(&path), kept_ids(&path)), (10, 10));
            now += 361 * SECOND;
        }
        for (number, many) in limits.iter().enumerate() {
            let charged = if number < 10 { 4 } else { 0 };
            assert_eq!(spent(&open(&path), many, "a").await, charged);
        }
    });
}

/// One key gets a sixteenth of the room for request ids, and one policy half of it. The others find
/// room, and every id that was accepted is still known.
#[test]
fn a_flood_of_ids_leaves_room_for_other_keys_and_policies() {
    const MAX: u64 = 320;
    let (_folder, path) = file();
    let store = connect(config(&path).sweep_every(None).max_request_ids(MAX));
    let (flooded, other) = (refusing("flooded", 10_000), refusing("other", 10_000));
    let taken = async |limit: &Limit, key: &str, id: &str| {
        let charges = [limit.charge(key)];
        let id = tollgate_core::RequestId::new(id).unwrap();
        match admitted(&store, &Admission::of(&charges).request_id(id), NOW).await {
            Ok(is_admitted) => is_admitted,
            Err(error) => {
                assert_eq!((error.code(), error.is_not_sent()), (Code::QueueFull, false));
                false
            }
        }
    };
    block_on(async {
        let mut of_one_key = 0;
        for id in 0..MAX {
            of_one_key += u64::from(taken(&flooded, "one", &id.to_string()).await);
        }
        assert_eq!(of_one_key, MAX / 16);
        let mut of_policy = of_one_key;
        for key in 0..MAX {
            of_policy += u64::from(taken(&flooded, &key.to_string(), "id").await);
        }
        assert_eq!(of_policy, MAX / 2);
        for key in 0..MAX / 4 {
            assert!(taken(&other, &key.to_string(), "id").await, "{key} of another policy");
        }
        // A replay needs no room, and a request without an id none.
        assert!(taken(&flooded, "one", "0").await);
        assert!(take(&store, &flooded, "one").await.unwrap());
        assert_eq!(spent(&store, &flooded, "one").await, of_one_key + 1);
        assert_eq!(known_ids(&path), of_policy + MAX / 4);
    });
}

/// A policy that refuses request ids for which there is no room.
fn refusing(name: &str, units: u64) -> Limit {
    policy(name, units).bounded(Bounds::new().when_ids_full(WhenIdsFull::Refuse))
}

/// The oldest ids make room: of the key, of the policy, of the store. That of a settlement does
/// not.
#[test]
fn the_oldest_ids_are_forgotten_and_counted() {
    const MAX: u64 = 320;
    let (_folder, path) = file();
    let store = connect(config(&path).sweep_every(None).max_request_ids(MAX));
    let (flooded, other) = (policy("flooded", 10_000), policy("other", 10_000));
    let bounded = policy("bounded", 10_000).bounded(Bounds::new().max_request_ids(32));
    let is_new = async |charge: Charge<'_>, id: &str, at: u64| {
        let id = tollgate_core::RequestId::new(id).unwrap();
        let evidence = store.admit(&charge.request_id(id), CallContext::at(NOW + at)).await;
        evidence.unwrap().replayed.is_none()
    };
    block_on(async {
        for key in 0..20_u64 {
            assert!(is_new(other.charge(&key.to_string()), "early", 0).await);
        }
        let refund = flooded.charge("one").refund(Receipt::Newest);
        assert!(is_new(flooded.charge("one"), "charge", 1).await);
        assert!(is_new(refund, "refund", 2).await);
        for id in 0..MAX {
            assert!(is_new(flooded.charge("one"), &id.to_string(), 3 + id).await, "{id}");
            assert!(!is_new(flooded.charge("one"), &id.to_string(), 3 + id).await, "{id}");
        }
        assert!(known_ids(&path) <= 20 + MAX / 16 + 1, "{}", known_ids(&path));
        for key in 0..2 * MAX {
            assert!(is_new(flooded.charge(&key.to_string()), "id", 1_000 + key).await);
            assert!(is_new(bounded.charge(&key.to_string()), "id", 1_000 + key).await);
        }
        assert!(!is_new(bounded.charge(&(2 * MAX - 1).to_string()), "id", 9_000).await);
        assert!(is_new(bounded.charge("0"), "id", 9_000).await, "forgotten");
        for key in 0..20_u64 {
            assert!(!is_new(other.charge(&key.to_string()), "early", 9_000).await, "{key}");
        }
        assert!(!is_new(refund, "refund", 9_000).await, "the refund is made once");
        assert!(kept_ids(&path) <= MAX && known_ids(&path) <= MAX);
        let new = 20 + 2 + MAX + 4 * MAX + 1;
        assert_eq!(store.forgotten_request_ids(), new - known_ids(&path));
    });
}
