//! What the server may delete, and clocks that differ.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use tollgate_core::algorithm::{Anchor, FixedWindow, Gcra};
use tollgate_core::{Admission, Clock, Limit, Quota, SystemClock};
use tollgate_denokv::{Config, DenoKv};
use tollgate_test_servers::DenoKv as Server;
use tollgate_test_servers::shared::denokv;

use crate::support::{NOW, SECOND, TEST_TIMEOUT, admitted, block_on, config, name, open};

/// When the server may delete its only value, in milliseconds; -1 for never.
fn expiration_ms(path: &Path) -> i64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let file = Connection::open_with_flags(path, flags).unwrap();
    file.busy_timeout(TEST_TIMEOUT).unwrap();
    file.query_row("SELECT expiration_ms FROM kv", [], |row| row.get(0)).unwrap()
}

/// A value outlives its meaning by the slack, rounded up: no clock has to agree with the
/// server's any better than that.
#[test]
fn the_server_may_delete_a_value_a_slack_after_it_means_nothing() {
    let server = Server::start().unwrap();
    let path = server.resources().path("kv.sqlite");
    let quota = Gcra::new(Quota::per_second(1)).unwrap();
    let brief = Limit::new(&name(), quota).unwrap();
    let charges = [brief.charge("a")];
    let settings: Config = server.url().parse().unwrap();
    let settings = settings.connect_timeout(TEST_TIMEOUT).operation_timeout(TEST_TIMEOUT);
    // A year ahead, so that the server deletes nothing while the test looks.
    let now = SystemClock::new().now() + 365 * 86_400 * SECOND + 1;
    block_on(async {
        let store = DenoKv::open(settings).unwrap();
        assert!(admitted(&store, &Admission::of(&charges), now).await.unwrap());
        let fresh_at = now + SECOND;
        let kept_until = i64::try_from((fresh_at + 60 * SECOND).div_ceil(1_000)).unwrap();
        assert_eq!(expiration_ms(&path), kept_until);
        let forever = DenoKv::open(config(&server.url())).unwrap();
        let later = now + 5 * SECOND;
        assert!(admitted(&forever, &Admission::of(&charges), later).await.unwrap());
        assert_eq!(expiration_ms(&path), -1);
    });
}

/// Two nodes whose clocks differ by almost the slack: no more is admitted than the clock that is
/// ahead would admit alone, although the other one is windows behind.
#[test]
fn clocks_that_differ_admit_no_more_than_the_one_that_is_ahead() {
    const SKEW: u64 = 59 * SECOND;
    let window = FixedWindow::new(Quota::new(5, std::time::Duration::from_secs(10)), Anchor::Epoch);
    let five = Limit::new(&name(), window.unwrap()).unwrap();
    let charges = [five.charge("a")];
    let (ahead, behind) = (open(&denokv().url()), open(&denokv().url()));
    let start = NOW - NOW % (10 * SECOND);
    block_on(async {
        for number in 0..8 {
            let now = start + number * 10 * SECOND;
            let mut passed = 0;
            for _ in 0..6 {
                let admission = Admission::of(&charges);
                passed += u32::from(admitted(&ahead, &admission, now).await.unwrap());
                passed += u32::from(admitted(&behind, &admission, now - SKEW).await.unwrap());
            }
            assert_eq!(passed, 5, "in window {number}");
        }
    });
}
