//! PostgreSQL in both versions: starts, answers, freezes, crashes, and loses nothing.

use std::process::Output;
use std::thread;
use std::time::Duration;

use tollgate_test_servers::wait::until_ok;
use tollgate_test_servers::{Error, FaultProxy, Mode, PgVersion, Postgres, shared};

use super::leaves_nothing;

/// The output of a client on the network for `select 1`, errors included.
fn over_network(postgres: &Postgres, url: &str, options: &[(&str, &str)]) -> String {
    let mut psql = postgres.psql().unwrap();
    psql.args(["-X", "-A", "-t", "-d", url, "-c", "select 1"]).env("PGCONNECT_TIMEOUT", "2");
    let Output { stdout, stderr, .. } = psql.envs(options.iter().copied()).output().unwrap();
    String::from_utf8_lossy(&[stdout, stderr].concat()).trim_end().to_owned()
}

#[test]
fn both_versions_start_answer_and_leave_nothing_behind() {
    for version in PgVersion::ALL {
        leaves_nothing(Postgres::start(version).unwrap(), |postgres| {
            let number = postgres.sql("show server_version_num").unwrap();
            assert!(number.starts_with(&version.major().to_string()), "{number}");
            assert_eq!(over_network(postgres, &postgres.url(), &[]), "1");
            assert!(postgres.sql("select no_such_column").is_err());
        });
    }
}

#[test]
fn tests_share_a_server_with_a_database_each() {
    let postgres = shared::postgres(PgVersion::V15);
    let databases = [(); 2].map(|()| postgres.fresh_database().unwrap());
    assert_ne!(databases[0], databases[1]);
    for database in &databases {
        postgres
            .sql_in(database, "create table mine (n int); insert into mine values (1)")
            .unwrap();
        assert_eq!(postgres.sql_in(database, "select count(*), 'a' from mine").unwrap(), "1|a");
        assert_eq!(over_network(postgres, &postgres.url_of(database), &[]), "1");
    }
}

#[test]
fn a_crash_loses_nothing_that_was_committed() {
    for version in PgVersion::ALL {
        let postgres = Postgres::start(version).unwrap();
        postgres.sql("create table kept (n int)").unwrap();
        postgres.sql("insert into kept values (7)").unwrap();
        let port = postgres.port();
        // A connection is at work while it crashes, in a process of its own.
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| postgres.sql("select pg_sleep(3600)"));
            wait_for_sleeper(&postgres);
            postgres.kill().unwrap();
            assert!(sleeper.join().unwrap().is_err(), "a process of the server survived");
        });
        assert!(postgres.sql("select 1").is_err());
        postgres.restart().unwrap();
        assert_eq!(postgres.port(), port);
        assert_eq!(postgres.sql("select n from kept").unwrap(), "7");
        postgres.stop().unwrap();
        assert!(!postgres.is_running());
        assert!(postgres.log().contains("received fast shutdown request"), "{}", postgres.log());
    }
}

fn wait_for_sleeper(postgres: &Postgres) {
    let count = "select count(*) from pg_stat_activity where query = 'select pg_sleep(3600)'";
    until_ok(Duration::from_secs(20), || match postgres.sql(count)?.as_str() {
        "1" => Ok(()),
        other => Err(Error::new(format!("{other} connections sleep"))),
    })
    .unwrap();
}

#[test]
fn a_frozen_server_answers_no_connection_until_it_continues() {
    let postgres = Postgres::start(PgVersion::V15).unwrap();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| postgres.sql("select pg_sleep(3600)"));
        wait_for_sleeper(&postgres);
        let connected = postgres.sql("select pid from pg_stat_activity where query ~ '3600.$'");
        let connected = connected.unwrap();
        postgres.stop_answering().unwrap();
        // The process that serves the connection is frozen as well.
        let stat = std::fs::read_to_string(format!("/proc/{connected}/stat")).unwrap();
        assert!(stat.contains(") T "), "{stat}");
        assert!(over_network(&postgres, &postgres.url(), &[]).contains("timeout expired"));
        postgres.go_on().unwrap();
        assert_eq!(postgres.sql("select 1").unwrap(), "1");
        postgres.stop_answering().unwrap();
        postgres.kill().unwrap();
        assert!(sleeper.join().unwrap().is_err());
    });
}

#[test]
fn a_password_is_required() {
    let password = "it's p@ss";
    let postgres = Postgres::builder(PgVersion::V18).password(password).start().unwrap();
    assert_eq!(over_network(&postgres, &postgres.url(), &[]), "1");
    let without = format!("postgres://postgres@127.0.0.1:{}/postgres", postgres.port());
    let refused = over_network(&postgres, &without, &[("PGPASSWORD", "wrong")]);
    assert!(refused.contains("password authentication failed"), "{refused}");
    assert_eq!(over_network(&postgres, &without, &[("PGPASSWORD", password)]), "1");
}

#[test]
fn tls_works_and_plain_text_is_refused() {
    for version in PgVersion::ALL {
        let postgres = Postgres::builder(version).tls().config("max_connections=20").start();
        let postgres = postgres.unwrap();
        let authority = postgres.certificates().unwrap().authority();
        let verified =
            [("PGSSLMODE", "verify-full"), ("PGSSLROOTCERT", authority.to_str().unwrap())];
        assert_eq!(over_network(&postgres, &postgres.url(), &verified), "1");
        let refused = over_network(&postgres, &postgres.url(), &[("PGSSLMODE", "disable")]);
        assert!(refused.contains("no encryption"), "{refused}");
        assert_eq!(postgres.sql("show max_connections").unwrap(), "20");
    }
}

#[test]
fn the_proxy_stands_in_front_of_any_server() {
    let postgres = shared::postgres(PgVersion::V15);
    let proxy = FaultProxy::to(postgres.addr()).unwrap();
    let url = format!("postgres://postgres@{}/postgres", proxy.addr());
    assert_eq!(over_network(postgres, &url, &[]), "1");
    proxy.set(Mode::DropReplies).unwrap();
    assert!(over_network(postgres, &url, &[]).contains("timeout expired"));
    proxy.set(Mode::Refuse).unwrap();
    assert!(over_network(postgres, &url, &[]).contains("Connection refused"));
}
