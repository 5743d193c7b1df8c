//! Sentinels: the replica takes over from a master that was killed, and the old one comes back as
//! its replica.

use std::time::Duration;

use tollgate_testkit::servers::wait::until_ok;
use tollgate_testkit::servers::{Error, RedisSentinel};

use super::{bulk, call, status};

const SOON: Duration = Duration::from_secs(60);

#[test]
fn the_replica_takes_over_from_a_killed_master() {
    let watched = RedisSentinel::builder().password("s3cret").start().unwrap();
    assert_eq!((watched.sentinels().len(), watched.urls().len()), (3, 3));
    let old = watched.master().unwrap();
    let mut client = old.client().unwrap();
    assert_eq!(call(&mut client, "SET key value"), status("OK"));
    assert_eq!(call(&mut client, "WAIT 1 10000").integer(), Some(1));
    let new = watched.fail_over().unwrap();
    assert_ne!(new.port(), old.port());
    let mut client = new.client().unwrap();
    assert_eq!(call(&mut client, "GET key"), bulk("value"));
    assert_eq!(call(&mut client, "SET key other"), status("OK"));
    old.restart().unwrap();
    until_ok(SOON, || {
        let reply = call(&mut old.client()?, "GET key");
        (reply == bulk("other")).then_some(()).ok_or_else(|| Error::new(format!("{reply:?}")))
    })
    .unwrap();
    let refused = call(&mut old.client().unwrap(), "SET key mine");
    assert!(refused.text().unwrap().starts_with("READONLY"), "{refused:?}");
}

#[test]
fn sentinels_agree_without_one_of_them_and_know_it_when_it_is_back() {
    let watched = RedisSentinel::start().unwrap();
    watched.sentinels()[0].kill().unwrap();
    let old = watched.master().unwrap();
    let new = watched.fail_over().unwrap();
    assert_ne!(new.port(), old.port());
    watched.sentinels()[0].restart().unwrap();
    watched.wait_until_watched().unwrap();
}
