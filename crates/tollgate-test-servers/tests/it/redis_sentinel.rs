//! Sentinels: the replica takes over from a master that was killed, and the old one comes back as
//! its replica.

use std::time::Duration;

use tollgate_test_servers::wait::until_ok;
use tollgate_test_servers::{Error, Redis, RedisSentinel};

use super::{bulk, call, status};

const SOON: Duration = Duration::from_secs(60);

/// The actions of the sentinels, for the reader of a failure.
fn logs(watched: &RedisSentinel) -> String {
    watched.sentinels().iter().map(|sentinel| sentinel.log()).collect::<Vec<_>>().join("\n---\n")
}

#[test]
fn the_replica_takes_over_from_a_killed_master() {
    let watched = Redis::builder().password("s3cret").start_sentinel().unwrap();
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
    let follows = until_ok(SOON, || {
        // A server that becomes a replica closes its connections, once for every sentinel's
        // command.
        let mut client = old.client()?;
        let (copied, refused) =
            (client.call(&["GET", "key"])?, client.call(&["SET", "key", "mine"])?);
        let is_readonly = refused.text().is_some_and(|text| text.starts_with("READONLY"));
        match copied == bulk("other") && is_readonly {
            true => Ok(()),
            false => Err(Error::new(format!("GET: {copied:?}, SET: {refused:?}"))),
        }
    });
    assert!(follows.is_ok(), "the old master: {follows:?}\n{}", logs(&watched));
}

#[test]
fn sentinels_agree_without_one_of_them_and_find_it_after_a_restart() {
    let watched = RedisSentinel::start().unwrap();
    watched.sentinels()[0].kill().unwrap();
    let old = watched.master().unwrap();
    let new = watched.fail_over().unwrap();
    assert_ne!(new.port(), old.port());
    watched.sentinels()[0].restart().unwrap();
    watched.wait_until_watched().unwrap();
}
