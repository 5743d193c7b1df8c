//! One Redis server: starts, answers, freezes, crashes, restarts, and leaves nothing behind.

use std::io::ErrorKind;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tollgate_test_servers::resp::{Client, Reply};
use tollgate_test_servers::{Redis, shared};

use super::{bulk, call, leaves_nothing, status};

#[test]
fn starts_answers_and_leaves_nothing_behind() {
    leaves_nothing(Redis::start().unwrap(), |redis| {
        let mut client = redis.client().unwrap();
        assert_eq!(call(&mut client, "SET key value"), status("OK"));
        assert_eq!(call(&mut client, "GET key"), bulk("value"));
        assert_eq!(call(&mut client, "GET other"), Reply::Nil);
        assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
        assert!(redis.log().contains("Ready to accept connections"), "{}", redis.log());
    });
}

#[test]
fn the_client_reads_every_kind_of_reply() {
    let mut client = shared::redis().client().unwrap();
    let nested = "return {1, 'two', {3, false}, redis.status_reply('four')}";
    let expected = [
        Reply::Integer(1),
        bulk("two"),
        Reply::Array(vec![Reply::Integer(3), Reply::Nil]),
        status("four"),
    ];
    assert_eq!(client.call(&["EVAL", nested, "0"]).unwrap(), Reply::Array(expected.to_vec()));
    let refused = call(&mut client, "NO-SUCH-COMMAND");
    assert!(refused.text().unwrap().starts_with("ERR unknown command"), "{refused:?}");
    assert!(refused.ok().is_err());
    // Version 3 of the protocol: a map, and what Lua can make of the other kinds.
    let greeting = call(&mut client, "HELLO 3");
    assert!(greeting.elements().windows(2).any(|pair| pair == [bulk("proto"), Reply::Integer(3)]));
    let kinds = "redis.setresp(3); return {true, {double=1.5}, {map={a=1}}, {set={b=true}}}";
    let expected = [
        Reply::Integer(1),
        bulk("1.5"),
        Reply::Array(vec![bulk("a"), Reply::Integer(1)]),
        Reply::Array(vec![bulk("b")]),
    ];
    assert_eq!(client.call(&["EVAL", kinds, "0"]).unwrap(), Reply::Array(expected.to_vec()));
    assert_eq!(call(&mut client, "GET nothing"), Reply::Nil);
}

#[test]
fn a_shared_server_outlives_the_thread_that_started_it() {
    let pid = thread::spawn(|| shared::redis().pid()).join().unwrap();
    assert_eq!(call(&mut shared::redis().client().unwrap(), "PING"), status("PONG"));
    assert_eq!(shared::redis().pid(), pid);
}

#[test]
fn a_password_and_users_are_required() {
    let rules = "ada on >wonder ~tollgate:* +get +set";
    let redis = Redis::builder().password("p@ss \"word\"").user(rules).start().unwrap();
    let mut client = Client::connect(redis.addr()).unwrap();
    assert!(call(&mut client, "GET x").text().unwrap().starts_with("NOAUTH"));
    assert_eq!(call(&mut redis.client().unwrap(), "SET x 1"), status("OK"));
    assert_eq!(call(&mut client, "AUTH ada wonder"), status("OK"));
    assert_eq!(call(&mut client, "SET tollgate:x 1"), status("OK"));
    assert!(call(&mut client, "GET x").text().unwrap().starts_with("NOPERM"));
    assert!(call(&mut client, "DEL tollgate:x").text().unwrap().starts_with("NOPERM"));
    assert!(redis.url().contains(":p%40ss%20%22word%22@"), "{}", redis.url());
}

#[test]
fn memory_is_bounded_and_configuration_is_applied() {
    let builder = Redis::builder().max_memory(4_000_000, "noeviction").config("databases 3");
    let redis = builder.start().unwrap();
    let mut client = redis.client().unwrap();
    let bound = call(&mut client, "CONFIG GET maxmemory");
    assert_eq!(bound.elements(), [bulk("maxmemory"), bulk("4000000")]);
    assert!(call(&mut client, "SELECT 3").ok().is_err());
    let large = "x".repeat(1_000_000);
    let full = (0..10).map(|key| client.call(&["SET", &key.to_string(), &large]).unwrap());
    let refusal = full.last().unwrap();
    assert!(refusal.text().unwrap().starts_with("OOM"), "{refusal:?}");
}

#[test]
fn a_frozen_server_keeps_connections_and_answers_later() {
    let redis = Redis::start().unwrap();
    let mut client = redis.client().unwrap();
    client.set_timeout(Duration::from_millis(100)).unwrap();
    redis.stop_answering().unwrap();
    assert!(redis.is_running());
    client.send(&["INCR", "late"]).unwrap();
    assert_eq!(client.read().unwrap_err().kind(), ErrorKind::WouldBlock);
    redis.go_on().unwrap();
    client.set_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(client.read().unwrap(), Reply::Integer(1));
    // A frozen server can be killed.
    redis.stop_answering().unwrap();
    redis.kill().unwrap();
    assert!(!redis.is_running());
}

#[test]
fn a_killed_server_refuses_and_restarts_empty_at_the_same_port() {
    let redis = Redis::start().unwrap();
    assert_eq!(call(&mut redis.client().unwrap(), "SET key value"), status("OK"));
    let (addr, pid) = (redis.addr(), redis.pid());
    redis.kill().unwrap();
    assert_eq!(Client::connect(addr).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!(redis.stop_answering().is_err(), "an ended process cannot be frozen");
    redis.restart().unwrap();
    assert_eq!((redis.addr(), redis.pid() == pid), (addr, false));
    assert_eq!(call(&mut redis.client().unwrap(), "GET key"), Reply::Nil);
}

#[test]
fn a_durable_server_keeps_its_data_after_a_crash() {
    let redis = Redis::builder().durable().start().unwrap();
    assert_eq!(call(&mut redis.client().unwrap(), "SET key value"), status("OK"));
    redis.restart().unwrap();
    assert_eq!(call(&mut redis.client().unwrap(), "GET key"), bulk("value"));
}

#[test]
fn a_server_that_cannot_start_reports_why() {
    let error = Redis::builder().config("no-such-setting 1").start().unwrap_err().to_string();
    assert!(error.contains("no-such-setting"), "the log is not quoted: {error}");
}

#[test]
fn servers_start_side_by_side() {
    let starts: Vec<_> = (0..4).map(|_| thread::spawn(|| Redis::start().unwrap())).collect();
    let servers: Vec<_> = starts.into_iter().map(|start| Arc::new(start.join().unwrap())).collect();
    for (index, redis) in servers.iter().enumerate() {
        let mut client = redis.client().unwrap();
        assert_eq!(call(&mut client, "DBSIZE"), Reply::Integer(0));
        assert_eq!(call(&mut client, &format!("SET mine {index}")), status("OK"));
    }
}
