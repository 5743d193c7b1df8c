//! The modes of the proxy, in front of a real Redis.

use std::io::ErrorKind;
use std::time::Duration;

use tollgate_test_servers::resp::{Client, Reply};
use tollgate_test_servers::wait::Deadline;
use tollgate_test_servers::{FaultProxy, Mode, Redis, shared};

use super::{call, status};

const SOON: Duration = Duration::from_secs(20);
/// Longer than a reply takes on this machine, and short where no reply is expected.
const BRIEFLY: Duration = Duration::from_millis(200);

/// A proxy in front of the shared server, and a connection through it that has been used.
fn proxied() -> (FaultProxy, Client) {
    let proxy = FaultProxy::to(shared::redis().addr()).unwrap();
    let mut client = Client::connect(proxy.addr()).unwrap();
    assert_eq!(call(&mut client, "PING"), status("PONG"));
    (proxy, client)
}

/// The number that the server stores.
fn stored(key: &str) -> Option<i64> {
    let reply = call(&mut shared::redis().client().unwrap(), &format!("GET {key}"));
    reply.text().map(|text| text.parse().unwrap())
}

fn gets_no_answer(client: &mut Client, command: &str) {
    client.set_timeout(BRIEFLY).unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(client.call(&words).unwrap_err().kind(), ErrorKind::WouldBlock);
    client.set_timeout(SOON).unwrap();
}

#[test]
fn passes_and_counts() {
    let (proxy, mut client) = proxied();
    let large = "x".repeat(3_000_000);
    assert_eq!(client.call(&["SET", "proxy:large", &large]).unwrap(), status("OK"));
    assert_eq!(call(&mut client, "GET proxy:large"), Reply::Bulk(large.into()));
    let traffic = proxy.traffic();
    assert_eq!((traffic.connections, traffic.open), (1, 1));
    assert!(traffic.to_server_bytes > 3_000_000 && traffic.to_client_bytes > 3_000_000);
    assert_eq!((traffic.lost_to_server_bytes, traffic.lost_to_client_bytes), (0, 0));
    drop(client);
    proxy.wait_until(SOON, |traffic| traffic.open == 0).unwrap();
}

#[test]
fn adds_latency_to_a_round_trip_and_not_to_each_of_many() {
    let (proxy, mut client) = proxied();
    let latency = Duration::from_millis(200);
    proxy.set(Mode::Latency(latency)).unwrap();
    let deadline = Deadline::after(latency);
    assert_eq!(call(&mut client, "PING"), status("PONG"));
    assert!(deadline.has_passed(), "the answer came too soon");
    // Twenty commands in a row overlap: together they take one latency and not twenty.
    let deadline = Deadline::after(latency * 20);
    for _ in 0..20 {
        client.send(&["PING"]).unwrap();
    }
    for _ in 0..20 {
        assert_eq!(client.read().unwrap(), status("PONG"));
    }
    assert!(!deadline.has_passed(), "latencies add up");
}

#[test]
fn drops_replies_of_executed_commands() {
    let (proxy, mut client) = proxied();
    proxy.set(Mode::DropReplies).unwrap();
    gets_no_answer(&mut client, "INCR proxy:ambiguous");
    proxy.wait_until(SOON, |traffic| traffic.lost_to_client_bytes == 4).unwrap();
    assert_eq!(stored("proxy:ambiguous"), Some(1));
    // Bytes after a gap would be misread: this connection delivers no more, a new one works.
    proxy.set(Mode::Pass).unwrap();
    gets_no_answer(&mut client, "INCR proxy:ambiguous");
    let mut client = Client::connect(proxy.addr()).unwrap();
    assert_eq!(call(&mut client, "GET proxy:ambiguous").text(), Some("2"));
}

#[test]
fn drops_the_replies_to_what_it_counts_and_to_nothing_before() {
    let proxy = FaultProxy::counting(shared::redis().addr(), "proxy:counted").unwrap();
    let mut client = Client::connect(proxy.addr()).unwrap();
    call(&mut client, "INCR proxy:counted");
    proxy.set(Mode::DropCounted).unwrap();
    assert_eq!(call(&mut client, "PING"), status("PONG"));
    gets_no_answer(&mut client, "INCR proxy:counted");
    proxy.wait_until(SOON, |traffic| traffic.lost_to_client_bytes == 4).unwrap();
    assert_eq!(stored("proxy:counted"), Some(2));
    assert_eq!(proxy.traffic().counted, 2);
    assert_eq!(call(&mut Client::connect(proxy.addr()).unwrap(), "PING"), status("PONG"));
}

#[test]
fn a_blackhole_delivers_nothing_to_the_server() {
    let (proxy, mut client) = proxied();
    proxy.set(Mode::Blackhole).unwrap();
    gets_no_answer(&mut client, "INCR proxy:lost");
    proxy.wait_until(SOON, |traffic| traffic.lost_to_server_bytes > 0).unwrap();
    assert_eq!(stored("proxy:lost"), None);
    let mut another = Client::connect(proxy.addr()).unwrap();
    gets_no_answer(&mut another, "PING");
}

#[test]
fn held_bytes_arrive_when_the_mode_changes() {
    let (proxy, mut client) = proxied();
    proxy.set(Mode::Hold).unwrap();
    gets_no_answer(&mut client, "INCR proxy:held");
    assert_eq!(stored("proxy:held"), None);
    proxy.set(Mode::Pass).unwrap();
    assert_eq!(client.read().unwrap(), Reply::Integer(1));
}

#[test]
fn resets_open_connections_and_accepts_new_ones() {
    let (proxy, mut client) = proxied();
    let mut waiting = Client::connect(proxy.addr()).unwrap();
    waiting.send(&["BLPOP", "proxy:nothing", "0"]).unwrap();
    proxy.wait_until(SOON, |traffic| traffic.connections == 2).unwrap();
    proxy.reset().unwrap();
    assert_eq!(proxy.traffic().open, 0);
    assert_eq!(waiting.read().unwrap_err().kind(), ErrorKind::ConnectionReset);
    let error = client.call(&["PING"]).unwrap_err().kind();
    assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
    let mut another = Client::connect(proxy.addr()).unwrap();
    assert_eq!(call(&mut another, "PING"), status("PONG"));
}

#[test]
fn resets_connections_in_every_mode() {
    let modes = [Mode::Hold, Mode::Blackhole, Mode::DropReplies, Mode::Refuse];
    for mode in modes.into_iter().chain([Mode::Latency(Duration::from_secs(3_600))]) {
        let (proxy, mut client) = proxied();
        proxy.set(mode).unwrap();
        client.send(&["PING"]).unwrap();
        proxy.reset().unwrap();
        let replies = [client.read(), client.read()];
        let was_reset = |read: &Result<Reply, _>| match read {
            Ok(_) => false,
            Err(error) => std::io::Error::kind(error) == ErrorKind::ConnectionReset,
        };
        assert!(replies.iter().any(was_reset), "{mode:?}: {replies:?}");
    }
}

#[test]
fn refuses_new_connections_and_keeps_the_old() {
    let (proxy, mut client) = proxied();
    for _ in 0..3 {
        proxy.set(Mode::Refuse).unwrap();
        let refused = Client::connect(proxy.addr()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(call(&mut client, "PING"), status("PONG"));
        proxy.set(Mode::Pass).unwrap();
        let mut another = Client::connect(proxy.addr()).unwrap();
        assert_eq!(call(&mut another, "PING"), status("PONG"));
    }
    proxy.set(Mode::Refuse).unwrap();
    drop(proxy);
}

#[test]
fn a_server_that_is_down_behind_the_proxy_is_a_reset() {
    let redis = Redis::start().unwrap();
    let proxy = FaultProxy::to(redis.addr()).unwrap();
    let mut client = Client::connect(proxy.addr()).unwrap();
    assert_eq!(call(&mut client, "PING"), status("PONG"));
    redis.kill().unwrap();
    assert!(client.call(&["PING"]).is_err(), "the end of the server was not passed on");
    // The reset may arrive while the client is still connecting.
    let another = Client::connect(proxy.addr()).and_then(|mut another| another.call(&["PING"]));
    assert!(another.is_err(), "{another:?}");
    redis.restart().unwrap();
    assert_eq!(call(&mut Client::connect(proxy.addr()).unwrap(), "PING"), status("PONG"));
}

#[test]
fn a_proxy_that_is_dropped_closes_its_connections() {
    let (proxy, mut client) = proxied();
    let addr = proxy.addr();
    drop(proxy);
    assert!(client.call(&["PING"]).is_err());
    assert_eq!(Client::connect(addr).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}
