//! What happens when the server, the network or another client fails.

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::limiter::BreakerConfig;
use tollgate_core::store::{Retries, Store};
use tollgate_core::{Code, Decision, Error, Limiter, ManualClock, OutageMode, Result};
use tollgate_postgres::Postgres;
use tollgate_test_servers::shared::postgres;
use tollgate_test_servers::{FaultProxy, Mode, PgVersion, wait};
use tollgate_testkit::contention;
use tollgate_testkit::runtime::join_all;

use crate::support::{
    TEST_TIMEOUT, block_on, client, config, config_in, limit, schema, spent, take, take_once,
    until_a_session_waits,
};

/// Callers with request ids go on while the server is killed; each keeps its id until it is
/// acknowledged. In the end every id was charged exactly once.
#[test]
fn a_killed_server_loses_nothing_acknowledged_and_applies_nothing_twice() {
    const CALLERS: usize = 16;
    const IDS: usize = 60;
    let server = Arc::new(tollgate_test_servers::Postgres::start(PgVersion::V15).unwrap());
    let config = config(&server.url());
    block_on(async {
        let store = Postgres::connect(config).await.unwrap();
        let many = limit(1 << 30);
        let (store, many) = (&store, &many);
        let (acknowledged, mut seen) = tokio::sync::watch::channel(0_usize);
        let acknowledged = &acknowledged;
        let callers = (0..CALLERS).map(|caller| async move {
            let key = format!("key {}", caller % 4);
            let mut failures = 0_usize;
            for id in 0..IDS {
                let id = format!("{caller}-{id}");
                while let Err(error) = take_once(store, many.charge(&key), &id).await {
                    assert!(error.is_outage(), "{error}");
                    failures += 1;
                    tokio::task::yield_now().await;
                }
                acknowledged.send_modify(|count| *count += 1);
            }
            failures
        });
        let killer = async {
            for part in [CALLERS * IDS / 4, CALLERS * IDS / 2] {
                seen.wait_for(|count| *count >= part).await.unwrap();
                let so_far = *seen.borrow_and_update();
                let server = Arc::clone(&server);
                let killed = tokio::task::spawn_blocking(move || {
                    server.kill().unwrap();
                    // Its children may still be about to notice.
                    wait::until_ok(TEST_TIMEOUT, || server.restart()).unwrap();
                });
                killed.await.unwrap();
                let stored: u64 = total(store, many).await;
                assert!(stored >= u64::try_from(so_far).unwrap(), "{stored} of {so_far} are left");
            }
        };
        let (failures, ()) = tokio::join!(join_all(callers), killer);
        assert!(failures.iter().sum::<usize>() > 0, "no call failed when the server was killed");
        assert_eq!(total(store, many).await, u64::try_from(CALLERS * IDS).unwrap());
    });
}

async fn total(store: &Postgres, many: &tollgate_core::Limit) -> u64 {
    let mut sum = 0;
    for key in 0..4 {
        sum += spent(store, many, &format!("key {key}")).await;
    }
    sum
}

/// Replies are lost while charges are under way. A retry with the same id is not charged again.
#[test]
fn lost_replies_are_never_charged_twice() {
    let server = postgres(PgVersion::V18);
    let proxy = FaultProxy::to(server.addr()).unwrap();
    let url = format!("postgres://postgres@{}/postgres", proxy.addr());
    block_on(async {
        let quick = Duration::from_millis(200);
        let store = Postgres::connect(config(&url).operation_timeout(quick)).await.unwrap();
        let many = limit(1_000);
        assert!(take_once(&store, many.charge("a"), "first").await.unwrap());
        for round in 0..5 {
            let id = format!("lost {round}");
            proxy.set(Mode::DropReplies).unwrap();
            let lost = take_once(&store, many.charge("a"), &id).await.unwrap_err();
            assert!(lost.is_outage(), "{lost}");
            proxy.set(Mode::Pass).unwrap();
            proxy.reset().unwrap();
            assert!(take_once(&store, many.charge("a"), &id).await.unwrap());
        }
        assert_eq!(spent(&store, &many, "a").await, 6);
    });
}

/// The rows of a client that is killed are unlocked at once.
#[test]
fn a_killed_client_gives_its_locks_back() {
    block_on(async {
        let server = postgres(PgVersion::V15);
        let schema = schema();
        let store = Postgres::connect(config_in(&server.url(), &schema)).await.unwrap();
        let many = limit(1_000);
        assert!(take(&store, &many, "a").await.unwrap());
        let mut holder = server.psql().unwrap();
        let holder = holder.arg(server.url()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let lock = format!("BEGIN;\nSELECT key FROM {schema}.limits FOR UPDATE;\n");
        holder.stdin.as_mut().unwrap().write_all(lock.as_bytes()).unwrap();
        let watcher = client(&server.url()).await;
        let held = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' \
                    AND query LIKE '%' || $1 || '%'";
        while watcher.query_one(held, &[&schema]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        let asked = async { take(&store, &many, "a").await.unwrap() };
        let killed = async {
            until_a_session_waits(&watcher, &schema).await;
            holder.kill().unwrap();
            holder.wait().unwrap();
        };
        let (is_allowed, ()) = tokio::join!(asked, killed);
        assert!(is_allowed);
        assert_eq!(spent(&store, &many, "a").await, 2);
    });
}

/// The server ends the session of a process that hangs while it holds rows.
#[test]
fn a_process_that_hangs_does_not_hold_its_locks_for_long() {
    let server = postgres(PgVersion::V15);
    let proxy = FaultProxy::to(server.addr()).unwrap();
    let url = format!("postgres://postgres@{}/postgres", proxy.addr());
    block_on(async {
        let schema = schema();
        let with_long_timeouts = config_in(&server.url(), &schema);
        let other = Postgres::connect(with_long_timeouts).await.unwrap();
        // The silent one would wait for its replies much longer than the other waits for the row:
        // its deadline is the server's too.
        let brief = config_in(&url, &schema).operation_timeout(Duration::from_millis(500));
        let silent = Postgres::connect(brief).await.unwrap();
        let many = limit(1_000);
        assert!(take(&silent, &many, "a").await.unwrap());
        proxy.set(Mode::DropReplies).unwrap();
        let watcher = client(&server.url()).await;
        let (lost, served) = tokio::join!(take(&silent, &many, "a"), async {
            let idle = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' \
                        AND query LIKE '%' || $1 || '%'";
            while watcher.query_one(idle, &[&schema]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::task::yield_now().await;
            }
            take(&other, &many, "a").await
        });
        assert!(lost.unwrap_err().is_outage());
        assert!(served.unwrap());
        assert_eq!(spent(&other, &many, "a").await, 2, "the process that hangs was charged");
    });
}

/// The network drops everything: the limiter answers within its deadline, and recovers.
#[test]
fn a_hung_server_is_answered_for_within_the_deadline() {
    let server = postgres(PgVersion::V18);
    let proxy = FaultProxy::to(server.addr()).unwrap();
    let url = format!("postgres://postgres@{}/postgres", proxy.addr());
    block_on(async {
        let store = Postgres::connect(
            config(&url)
                .operation_timeout(Duration::from_millis(300))
                .connect_timeout(Duration::from_millis(200)),
        );
        let limiter = Limiter::new(store.await.unwrap());
        let closed = limit(1_000).on_outage(OutageMode::Closed);
        proxy.set(Mode::Blackhole).unwrap();
        let start = Instant::now();
        let decision = limiter.check(closed.charge("a")).await.unwrap();
        let took = start.elapsed();
        assert_eq!(decision.degraded, Some(OutageMode::Closed));
        assert!(took >= Duration::from_millis(100), "answered after {took:?}: it did not hang");
        assert!(took < Duration::from_secs(5), "answered after {took:?}");
        proxy.set(Mode::Pass).unwrap();
        // What was cut off may hold its row for a while: then others are in the way.
        let is_served = |answer: Result<Decision>| answer.is_ok_and(|one| one.degraded.is_none());
        let recovered = async {
            while !is_served(limiter.check(closed.charge("a")).await) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, recovered).await.expect("it recovers");
    });
}

#[test]
fn a_full_server_is_an_outage_until_there_is_room() {
    let full = tollgate_test_servers::Postgres::builder(PgVersion::V15)
        .config("max_connections=6")
        .config("superuser_reserved_connections=0")
        .config("max_wal_senders=0")
        .start()
        .unwrap();
    block_on(async {
        let store = Postgres::connect(config(&full.url()).connections(1)).await.unwrap();
        let many = limit(1_000);
        let mut others = Vec::new();
        while let Ok((client, connection)) =
            tokio_postgres::connect(&full.url(), tokio_postgres::NoTls).await
        {
            let task = tokio::spawn(connection);
            others.push((client, task));
        }
        let error = take(&store, &many, "a").await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
        assert!(error.is_not_sent() && error.message().contains("53300"), "{error}");
        for (client, task) in others {
            drop(client);
            let _ = task.await;
        }
        let served = async { while take(&store, &many, "a").await.is_err() {} };
        tokio::time::timeout(TEST_TIMEOUT, served).await.expect("there is room again");
        assert_eq!(spent(&store, &many, "a").await, 1);
    });
}

#[test]
fn a_server_that_is_not_there_is_an_outage_and_nothing_was_sent() {
    block_on(async {
        let unused = tollgate_test_servers::Port::reserve().unwrap();
        let url = format!("postgres://postgres:s3cret@{}/postgres", unused.addr());
        let store = Postgres::open(config(&url)).unwrap();
        let error = take(&store, &limit(1), "a").await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable);
        assert!(error.is_not_sent());
        assert!(!format!("{error:?} {store:?}").contains("s3cret"));
        store.close().await;
    });
}

/// A row that another transaction locks for too long is contention, which an attacker could cause:
/// it is never an outage.
#[test]
fn a_row_that_stays_locked_is_no_outage() {
    block_on(async {
        let (url, schema) = (postgres(PgVersion::V15).url(), schema());
        let once = Retries::default().max_retries(1);
        let config = config_in(&url, &schema).retries(once);
        let with_long_timeouts = Postgres::connect(config.clone()).await.unwrap();
        let many = limit(1_000);
        assert!(take(&with_long_timeouts, &many, "a").await.unwrap());
        let holder = client(&url).await;
        let lock = format!("BEGIN; SELECT FROM {schema}.limits FOR UPDATE");
        holder.batch_execute(&lock).await.unwrap();
        // The server gives up first: the client waits for its answer a little longer.
        let brief = config.operation_timeout(Duration::from_millis(100));
        let store = Postgres::connect(brief).await.unwrap();
        let error = take(&store, &many, "a").await.unwrap_err();
        assert_eq!(error.code(), Code::ConflictExhausted, "{error}");
    });
}

/// The deadline of the limiter may expire before that. A caller that waits for the row, or behind
/// such a caller in this process, is never admitted by an outage mode, and is not charged.
#[test]
fn contention_for_a_row_is_never_an_outage() {
    block_on(async {
        let (url, schema) = (postgres(PgVersion::V18).url(), schema());
        let endless = Retries::default().max_retries(1_000_000);
        let one = config_in(&url, &schema).connections(1).retries(endless);
        let store = Arc::new(Postgres::connect(one).await.unwrap());
        let many = limit(1_000).on_outage(OutageMode::Open);
        assert!(take(&store, &many, "a").await.unwrap());
        let holder = client(&url).await;
        let lock = format!("BEGIN; SELECT FROM {schema}.limits FOR UPDATE");
        holder.batch_execute(&lock).await.unwrap();
        let clock = ManualClock::at(0);
        let limiter = Limiter::with_clock(Arc::clone(&store), clock.clone()).build();
        let calls = async {
            let keys = ["a"; 3].map(|key| limiter.check(many.charge(key)));
            let batch = [many.charge("a")];
            let (batch, alone) = tokio::join!(limiter.check_batch(&batch), join_all(keys));
            batch.into_iter().chain(alone).collect::<Vec<_>>()
        };
        let held = async {
            contention::until_held_up(&store, many.charge("a"), 0).await;
            clock.advance(Duration::from_secs(1));
        };
        let (answers, ()) = tokio::join!(calls, held);
        for answer in answers {
            let error = answer.unwrap_err();
            assert!(matches!(error.code(), Code::ConflictExhausted | Code::QueueFull), "{error}");
            assert!(error.is_not_sent(), "{error}");
        }
        let stats = limiter.stats();
        assert_eq!((stats.degraded_open, stats.store_failures), (0, 0));
        holder.batch_execute("ROLLBACK").await.unwrap();
        assert!(take(&store, &many, "a").await.unwrap());
        assert_eq!(
            spent(&store, &many, "a").await,
            2,
            "a caller whose deadline expired was charged"
        );
    });
}

/// A server that answers later than the deadline is an outage, also for a single caller: the answer
/// to its previous call arrives while the next one waits, and must not look like contention.
#[test]
fn a_slow_server_is_a_timeout_and_never_contention() {
    let server = postgres(PgVersion::V15);
    let proxy = FaultProxy::to(server.addr()).unwrap();
    let url = format!("postgres://postgres@{}/postgres", proxy.addr());
    block_on(async {
        let store = Postgres::connect(config(&url)).await.unwrap();
        let never = BreakerConfig::default().failures(0);
        let limiter = Limiter::builder(store).breaker(never).build();
        let closed = limit(1_000).on_outage(OutageMode::Closed);
        for latency in [60, 90, 120, 190, 310] {
            proxy.set(Mode::Latency(Duration::from_millis(latency))).unwrap();
            for call in 0..6 {
                let decision = limiter.check(closed.charge("a")).await;
                let decision = decision.unwrap_or_else(|error| panic!("{latency} ms: {error}"));
                assert_eq!(decision.degraded, Some(OutageMode::Closed), "{latency} ms, {call}");
            }
        }
        let is_named = |error: &Error| error.message().contains("is too slow: it answered after ");
        let named = async {
            while !limiter.peek(closed.charge("a")).await.is_err_and(|error| is_named(&error)) {}
        };
        tokio::time::timeout(TEST_TIMEOUT, named).await.expect("it is named slow");
    });
}

/// After a failover the URL may lead to a standby. It answers and cannot write: the outage mode
/// decides, and the error names the reason.
#[test]
fn a_standby_is_an_outage() {
    let server = tollgate_test_servers::Postgres::start(PgVersion::V15).unwrap();
    let config = config(&server.url());
    block_on(async {
        let store = Postgres::connect(config).await.unwrap();
        let limit = limit(10);
        assert!(take(&store, &limit, "a").await.unwrap());
        let data = server.sql("SHOW data_directory").unwrap();
        server.kill().unwrap();
        std::fs::write(std::path::Path::new(data.trim()).join("standby.signal"), "").unwrap();
        wait::until_ok(TEST_TIMEOUT, || server.restart()).unwrap();
        // The connection to the old one is lost first.
        let error = loop {
            match take(&store, &limit, "a").await {
                Err(error) if error.to_string().contains("standby") => break error,
                Err(error) => assert!(error.is_outage(), "{error}"),
                Ok(_) => panic!("a standby has written"),
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
    });
}

/// Rows that another session has locked hold up their own callers only: neither the other keys of
/// their worker, nor each other once they are free.
#[test]
fn locked_rows_hold_up_no_other_key() {
    block_on(async {
        let (url, schema) = (postgres(PgVersion::V18).url(), schema());
        let endless = Retries::default().max_retries(1_000_000);
        let one = config_in(&url, &schema).connections(1).retries(endless);
        let store = Arc::new(Postgres::connect(one).await.unwrap());
        let many = limit(1_000);
        let keys: Vec<String> = (0..12).map(|key| format!("key {key}")).collect();
        for key in &keys {
            assert!(take(&store, &many, key).await.unwrap());
        }
        let holders = [client(&url).await, client(&url).await];
        // The last key stays free.
        for (holder, odd) in holders.iter().zip([0, 1]) {
            let names = keys[..11].iter().enumerate().filter(|(index, _)| index % 2 == odd);
            let names: Vec<String> = names.map(|(_, key)| many.key(key).to_text()).collect();
            holder.batch_execute("BEGIN").await.unwrap();
            let lock = format!("SELECT FROM {schema}.limits WHERE key = ANY($1) FOR UPDATE");
            holder.query(&lock, &[&names]).await.unwrap();
        }
        let locked = keys[..11].iter().map(|key| {
            let (store, many, key) = (Arc::clone(&store), many.clone(), key.clone());
            tokio::spawn(async move { take(&store, &many, &key).await })
        });
        let locked: Vec<_> = locked.collect();
        let watcher = client(&url).await;
        until_a_session_waits(&watcher, &schema).await;
        // Each of these rounds would wait for the locks, or behind a round that does.
        for _ in 0..50 {
            assert!(take(&store, &many, &keys[11]).await.unwrap());
        }
        assert!(locked.iter().all(|call| !call.is_finished()));
        holders[1].batch_execute("ROLLBACK").await.unwrap();
        let mut locked = locked.into_iter().enumerate();
        let (even, odd): (Vec<_>, Vec<_>) = locked.by_ref().partition(|(index, _)| index % 2 == 0);
        for (_, call) in odd {
            let decided = tokio::time::timeout(TEST_TIMEOUT, call).await;
            assert!(decided.expect("its row is free").unwrap().unwrap());
        }
        assert!(even.iter().all(|(_, call)| !call.is_finished()));
        holders[0].batch_execute("ROLLBACK").await.unwrap();
        for (_, call) in even {
            assert!(call.await.unwrap().unwrap());
        }
        assert_eq!(spent(&store, &many, "key 0").await, 2);
        assert_eq!(spent(&store, &many, "key 11").await, 51);
    });
}

/// The row of a request id that another session has locked holds up the callers of that id only:
/// neither the other keys of their worker, nor other callers of the same key.
#[test]
fn a_locked_request_id_holds_up_no_other_caller() {
    block_on(async {
        let (url, schema) = (postgres(PgVersion::V18).url(), schema());
        let endless = Retries::default().max_retries(1_000_000);
        let one = config_in(&url, &schema).connections(1).retries(endless);
        let store = Arc::new(Postgres::connect(one).await.unwrap());
        let many = limit(1_000);
        assert!(take_once(&store, many.charge("a"), "id").await.unwrap());
        assert!(take(&store, &many, "b").await.unwrap());
        let holder = client(&url).await;
        let lock = format!("BEGIN; SELECT FROM {schema}.limits_once FOR UPDATE");
        holder.batch_execute(&lock).await.unwrap();
        let held = {
            let (store, many) = (Arc::clone(&store), many.clone());
            tokio::spawn(async move { take_once(&store, many.charge("a"), "id").await })
        };
        let watcher = client(&url).await;
        until_a_session_waits(&watcher, &schema).await;
        let others = async {
            for id in 0..10 {
                assert!(take(&store, &many, "b").await.unwrap());
                assert!(take(&store, &many, "a").await.unwrap());
                let id = format!("other {id}");
                assert!(take_once(&store, many.charge("a"), &id).await.unwrap());
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, others).await.expect("their rows are free");
        assert!(!held.is_finished());
        holder.batch_execute("ROLLBACK").await.unwrap();
        assert!(held.await.unwrap().unwrap(), "the answer is repeated");
        assert_eq!((spent(&store, &many, "a").await, spent(&store, &many, "b").await), (21, 11));
    });
}
