//! Redis 8, on its own, encrypted, and as a cluster.

use tollgate_testkit::servers::{Redis8, RedisCluster};

use super::{bulk, call, leaves_nothing, status};

#[test]
fn starts_answers_and_leaves_nothing_behind() {
    leaves_nothing(Redis8::builder().password("s3cret").tls().start().unwrap(), |redis| {
        let mut client = redis.client().unwrap();
        assert_eq!(call(&mut client, "SET key value"), status("OK"));
        let about = call(&mut client, "INFO server");
        assert!(about.text().unwrap().contains("redis_version:8."), "{about:?}");
        redis.restart().unwrap();
        assert_ne!(call(&mut redis.client().unwrap(), "GET key"), bulk("value"));
    });
}

#[test]
fn forms_a_cluster_and_moves_slots() {
    let cluster = RedisCluster::builder().redis_8().start(3).unwrap();
    let slot = cluster.slot_of_key("key").unwrap();
    let from = cluster.owner(slot).unwrap();
    assert_eq!(call(&mut cluster.nodes()[from].client().unwrap(), "SET key value"), status("OK"));
    let to = (from + 1) % 3;
    cluster.move_slots([slot], to).unwrap();
    assert_eq!(call(&mut cluster.nodes()[to].client().unwrap(), "GET key"), bulk("value"));
}
