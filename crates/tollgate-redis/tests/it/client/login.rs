//! Passwords, users and databases: which the server accepts, and what an error shows of them.

use tollgate_redis::transport::Transport;
use tollgate_test_servers::Redis;

use super::{count, open, soon, stored, text};

#[tokio::test]
async fn passwords_users_and_databases_are_used() {
    let redis = Redis::builder()
        .password("p@ss:/word")
        .user("ada on >wonder ~mine:* +eval +incr")
        .start()
        .unwrap();
    let client = open(&format!("{}/3?name=tollgate-test", redis.url()));
    assert_eq!(soon(&client, &count("mine:a", "x")).await.unwrap(), text("x"));
    assert_eq!(stored(&redis, "mine:a"), 0, "the database was not chosen");
    let list = redis.client().unwrap().call(&["CLIENT", "LIST"]).unwrap();
    assert!(list.text().unwrap().contains("name=tollgate-test"), "{list:?}");
    // A user without the right to PING.
    let client = open(&format!("redis://ada:wonder@127.0.0.1:{}", redis.port()));
    assert_eq!(soon(&client, &count("mine:a", "x")).await.unwrap(), text("x"));
    let refused = soon(&client, &count("other:a", "x")).await.unwrap();
    let error = refused.ok().unwrap_err().to_string();
    assert!(error.contains("NOPERM") && !error.contains("other"), "{error}");
}

#[tokio::test]
async fn an_error_of_a_login_shows_no_password() {
    let redis = Redis::builder().password("right").start().unwrap();
    for url in [
        format!("redis://:s3cret@127.0.0.1:{}", redis.port()),
        format!("redis://ada:s3cret@127.0.0.1:{}", redis.port()),
        format!("redis://127.0.0.1:{}", redis.port()),
    ] {
        let client = open(&url);
        let error = soon(&client, &count("a", "x")).await.unwrap_err();
        let shown = format!("{error} {error:?} {client:?}");
        assert!(error.is_not_sent() && !shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("WRONGPASS") || shown.contains("NOAUTH"), "{shown}");
    }
    assert_eq!(stored(&redis, "a"), 0);
}

#[tokio::test]
async fn a_refused_login_or_database_is_named() {
    let redis = Redis::start().unwrap();
    let client = open(&format!("redis://ada:s3cret@127.0.0.1:{}", redis.port()));
    let error = client.send(&count("a", "x")).await.unwrap_err();
    assert!(error.to_string().contains("refuses the user or the password"), "{error}");
    let client = open(&format!("redis://127.0.0.1:{}/99", redis.port()));
    let error = client.send(&count("a", "x")).await.unwrap_err();
    assert!(error.to_string().contains("refuses the database"), "{error}");
}
