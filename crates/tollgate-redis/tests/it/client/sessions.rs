//! Connections for one caller alone, and who may log in.

use tollgate_redis::client::Client;
use tollgate_redis::transport::{Reply, Transport};
use tollgate_test_servers::{FaultProxy, Redis};

use super::{commands, count, open, soon, stored, text};

#[tokio::test]
async fn a_watched_key_that_changes_undoes_the_transaction() {
    let redis = Redis::start().unwrap();
    let client = open(&redis.url());
    let mut session = client.sessions().unwrap().open("watched").await.unwrap();
    let seen = commands(&mut session, &["WATCH watched", "GET watched"]).await;
    assert_eq!(seen, [text("OK"), Reply::Nil]);
    redis.client().unwrap().call(&["SET", "watched", "7"]).unwrap();
    let write = ["MULTI", "SET watched 1", "EXEC"];
    let replies = commands(&mut session, &write).await;
    assert_eq!(replies, [text("OK"), text("QUEUED"), Reply::Nil]);
    commands(&mut session, &["WATCH watched"]).await;
    let replies = commands(&mut session, &write).await;
    assert_eq!(replies[2], Reply::List(vec![text("OK")]));
    assert_eq!(stored(&redis, "watched"), 1);
}

#[tokio::test]
async fn a_session_is_used_again_only_if_nothing_is_left_behind() {
    let redis = Redis::start().unwrap();
    let proxy = FaultProxy::to(redis.addr()).unwrap();
    let client = open(&format!("redis://{}", proxy.addr()));
    let sessions = client.sessions().unwrap();
    for _ in 0..5 {
        let mut session = sessions.open("k").await.unwrap();
        commands(&mut session, &["WATCH k", "MULTI", "EXEC"]).await;
    }
    assert_eq!(proxy.traffic().connections, 1, "an idle session was not used again");
    let mut session = sessions.open("k").await.unwrap();
    commands(&mut session, &["WATCH k"]).await;
    drop(session);
    let mut session = sessions.open("k").await.unwrap();
    assert_eq!(proxy.traffic().connections, 2, "a session that watches was used again");
    // One that the server has closed is not handed out.
    commands(&mut session, &["PING"]).await;
    drop(session);
    proxy.reset().unwrap();
    let mut session = sessions.open("k").await.unwrap();
    assert_eq!(commands(&mut session, &["PING"]).await, [text("PONG")]);
    assert_eq!(proxy.traffic().connections, 3);
}

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
    let mut look = redis.client().unwrap();
    let list = look.call(&["CLIENT", "LIST"]).unwrap();
    assert!(list.text().unwrap().contains("name=tollgate-test"), "{list:?}");
    // A user without the right to PING.
    let client = open(&format!("redis://ada:wonder@127.0.0.1:{}", redis.port()));
    assert_eq!(soon(&client, &count("mine:a", "x")).await.unwrap(), text("x"));
    let refused = soon(&client, &count("yours:a", "x")).await.unwrap();
    let error = refused.ok().unwrap_err();
    assert!(
        error.to_string().contains("NOPERM") && !error.to_string().contains("yours"),
        "{error}"
    );
}

#[tokio::test]
async fn a_wrong_password_is_told_without_being_told() {
    let redis = Redis::builder().password("right").start().unwrap();
    for url in [
        format!("redis://:s3cret@127.0.0.1:{}", redis.port()),
        format!("redis://ada:s3cret@127.0.0.1:{}", redis.port()),
        format!("redis://127.0.0.1:{}", redis.port()),
    ] {
        let client: Client = open(&url);
        let error = soon(&client, &count("a", "x")).await.unwrap_err();
        let shown = format!("{error} {error:?} {client:?}");
        assert!(error.is_not_sent() && !shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("WRONGPASS") || shown.contains("NOAUTH"), "{shown}");
    }
    assert_eq!(stored(&redis, "a"), 0);
}

#[tokio::test]
async fn a_login_that_the_server_does_not_want_is_an_error() {
    let redis = Redis::start().unwrap();
    let client = open(&format!("redis://ada:s3cret@127.0.0.1:{}", redis.port()));
    let error = client.send(&count("a", "x")).await.unwrap_err();
    assert!(error.to_string().contains("refuses the user or the password"), "{error}");
    let client = open(&format!("redis://127.0.0.1:{}/99", redis.port()));
    let error = client.send(&count("a", "x")).await.unwrap_err();
    assert!(error.to_string().contains("refuses the database"), "{error}");
}
