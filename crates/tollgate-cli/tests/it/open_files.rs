//! The limit of open files before and after a server starts.

use std::fs;
use std::net::TcpStream;

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
fn a_hard_limit_that_is_too_low_is_logged_when_connections_approach_it() {
    let (current, logged) = limit_of(300, 500, "200");
    assert_eq!(current, 500);
    assert!(!logged.contains("open files"), "nothing is connected: {logged}");
    let mut server = Serving::start_within(300, 500, &[("TOLLGATE_CONNECTIONS", "200")]);
    let each = ["HTTP", "gRPC", "RESP"].into_iter().cycle().take(450);
    let open: Vec<_> = each.map(|name| TcpStream::connect(server.at(name)).unwrap()).collect();
    let logged = server.logged("open files");
    for part in ["limit of 500", "need 1048", "RLIMIT_NOFILE", "LimitNOFILE=", "`connections`"] {
        assert!(logged.contains(part), "{part}: {logged}");
    }
    drop(open);
}

#[test]
fn a_limit_that_suffices_is_kept() {
    let (current, logged) = limit_of(1_100, 2_000, "200");
    assert_eq!(current, 1_100);
    assert!(!logged.contains("open files"), "{logged}");
}
