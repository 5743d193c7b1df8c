//! Valkey, on its own and as a cluster.

use tollgate_testkit::servers::{RedisCluster, Valkey};

use super::{bulk, call, leaves_nothing, status};

#[test]
fn starts_answers_and_leaves_nothing_behind() {
    leaves_nothing(Valkey::builder().password("s3cret").start().unwrap(), |valkey| {
        let mut client = valkey.client().unwrap();
        assert_eq!(call(&mut client, "SET key value"), status("OK"));
        assert_eq!(call(&mut client, "GET key"), bulk("value"));
        let about = call(&mut client, "INFO server");
        assert!(about.text().unwrap().contains("server_name:valkey"), "{about:?}");
    });
}

#[test]
fn forms_a_cluster_and_moves_slots() {
    let cluster = RedisCluster::builder().valkey().start(3).unwrap();
    let slot = cluster.slot_of_key("key").unwrap();
    let from = cluster.owner(slot).unwrap();
    assert_eq!(call(&mut cluster.nodes()[from].client().unwrap(), "SET key value"), status("OK"));
    let to = (from + 1) % 3;
    cluster.move_slots([slot], to).unwrap();
    assert_eq!(call(&mut cluster.nodes()[to].client().unwrap(), "GET key"), bulk("value"));
}
