//! The limit of open files before and after a server starts.

use std::fs;

use crate::support::Serving;

/// Starts a server with these limits, and returns its soft limit and what it logs.
fn limit_of(soft: u64, hard: u64, connections: &str) -> (u64, String) {
    let server = Serving::start_within(soft, hard, &[("TOLLGATE_CONNECTIONS", connections)]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let current = line.split_whitespace().nth(3).unwrap().parse().unwrap();
    (current, server.end())
}

#[test]
fn the_soft_limit_is_raised_to_what_three_listeners_need() {
    let (current, logged) = limit_of(300, 2_000, "200");
    assert_eq!(current, 3 * 200 + 448);
    assert!(!logged.contains("open files"), "{logged}");
}

#[test]
fn a_hard_limit_that_is_too_low_is_logged_with_a_remedy() {
    let (current, logged) = limit_of(300, 500, "200");
    assert_eq!(current, 500);
    for part in ["500 open files", "need 1048", "RLIMIT_NOFILE", "LimitNOFILE=", "`connections`"] {
        assert!(logged.contains(part), "{part}: {logged}");
    }
}

#[test]
fn a_limit_that_suffices_is_kept() {
    let (current, logged) = limit_of(1_100, 2_000, "200");
    assert_eq!(current, 1_100);
    assert!(!logged.contains("open files"), "{logged}");
}
