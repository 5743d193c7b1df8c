//! Redis 8 and Valkey, each on its own and as a cluster.

use tollgate_test_servers::RedisBuilder;

use super::{bulk, call, leaves_nothing, status};

/// `about` is a part of its `INFO server`.
fn starts_answers_and_leaves_nothing_behind(server: RedisBuilder, about: &str) {
    leaves_nothing(server.password("s3cret").start().unwrap(), |server| {
        let mut client = server.client().unwrap();
        assert_eq!(call(&mut client, "SET key value"), status("OK"));
        assert_eq!(call(&mut client, "GET key"), bulk("value"));
        let info = call(&mut client, "INFO server");
        assert!(info.text().unwrap().contains(about), "{info:?}");
        server.restart().unwrap();
        assert_ne!(call(&mut server.client().unwrap(), "GET key"), bulk("value"));
    });
}

fn forms_a_cluster_and_moves_slots(node: RedisBuilder) {
    let cluster = node.start_cluster(3).unwrap();
    let slot = cluster.slot_of_key("key").unwrap();
    let from = cluster.owner(slot).unwrap();
    assert_eq!(call(&mut cluster.nodes()[from].client().unwrap(), "SET key value"), status("OK"));
    let to = (from + 1) % 3;
    cluster.move_slots([slot], to).unwrap();
    assert_eq!(call(&mut cluster.nodes()[to].client().unwrap(), "GET key"), bulk("value"));
}

macro_rules! on {
    ($engine:ident, $server:expr, $about:literal, $cluster:expr) => {
        mod $engine {
            use tollgate_test_servers::Redis;

            #[test]
            fn starts_answers_and_leaves_nothing_behind() {
                super::starts_answers_and_leaves_nothing_behind($server, $about);
            }

            #[test]
            fn forms_a_cluster_and_moves_slots() {
                super::forms_a_cluster_and_moves_slots($cluster);
            }
        }
    };
}

on! {
    redis_8, Redis::builder().redis_8().tls(), "redis_version:8.",
    Redis::builder().redis_8()
}
on! { valkey, Redis::builder().valkey(), "server_name:valkey", Redis::builder().valkey() }
