//! The RESP interface.

use std::time::Duration;

use serde_json::json;
use tollgate::{ManualClock, Quota};
use tollgate_server::policy::Policies;

use crate::support::{NOW, Resp, Running, slow};

#[tokio::test]
async fn cl_throttle_answers_as_redis_cell_does() {
    let clock = ManualClock::at(NOW);
    let server = Running::with_clock(slow(), &clock).await;
    let mut client = server.resp().await;
    let throttle = |quantity: &'static str| ["CL.THROTTLE", "user123", "15", "30", "60", quantity];
    // The example of its documentation, then further calls until the burst is spent.
    assert_eq!(client.five(&throttle("1")[..5]).await, [0, 16, 15, -1, 2]);
    assert_eq!(client.five(&throttle("0")).await, [0, 16, 15, -1, 2]);
    assert_eq!(client.five(&throttle("15")).await, [0, 16, 0, -1, 32]);
    assert_eq!(client.five(&throttle("1")).await, [1, 16, 0, 2, 32]);
    assert_eq!(client.five(&throttle("0")).await, [0, 16, 0, -1, 32]);
    assert_eq!(client.five(&throttle("17")).await, [1, 16, 0, -1, 32]);
    // Times are rounded up to whole seconds.
    clock.advance(Duration::from_millis(500));
    assert_eq!(client.five(&throttle("1")).await, [1, 16, 0, 2, 32]);
    clock.advance(Duration::from_millis(1_500));
    assert_eq!(client.five(&throttle("1")).await, [0, 16, 0, -1, 32]);
    // Another quota on the same key: what was spent stays spent.
    let other = client.five(&["CL.THROTTLE", "user123", "3", "4", "60"]).await;
    assert_eq!(other[..3], [1, 4, 0]);
    server.end().await;
}

#[tokio::test]
async fn tg_acquire_charges_once_under_an_id() {
    let clock = ManualClock::at(NOW);
    let policies = Policies::of_default(10, Quota::per_second(1)).unwrap();
    let server = Running::with_clock(policies, &clock).await;
    let mut client = server.resp().await;
    let reset = i64::try_from(NOW / 1_000).unwrap() + 7_000;
    let words = ["TG.ACQUIRE", "default", "k", "7", "id"];
    let first = client.reply(&words).await;
    let receipt = first[6].as_str().unwrap().to_owned();
    assert_eq!(first, json!([1, 10, 3, 0, reset, 0, receipt]));
    let replay = client.reply(&words).await;
    assert_eq!(replay, json!([1, 10, 3, 0, reset, 1, receipt]), "replayed");
    assert_eq!(client.five(&["tg.acquire", "default", "k", "4"]).await, [0, 10, 3, 1_000, reset]);
    assert_eq!(client.five(&["TG.ACQUIRE", "default", "k", "11"]).await, [0, 10, 3, -1, reset]);
    let denied = client.reply(&["TG.ACQUIRE", "default", "k", "4", "RECEIPT"]).await;
    assert_eq!(denied, json!([0, 10, 3, 1_000, reset, 0, null]));
    let refund = ["TG.REFUND", &receipt];
    let at = reset - 7_000;
    assert_eq!(client.reply(&refund).await, json!([7, 10, 10, at, 0, ["default", 7]]));
    assert_eq!(client.reply(&refund).await, json!([7, 10, 10, at, 1, ["default", 7]]));
    // A key may have the name of the option, and so may an id before it.
    assert_eq!(client.five(&["TG.ACQUIRE", "default", "RECEIPT"]).await[2], 9);
    let named = ["TG.ACQUIRE", "default", "k", "1", "receipt", "receipt"];
    assert_eq!(client.reply(&named).await[5], 0);
    assert_eq!(client.reply(&named).await[5], 1);
    let conflict = client.call(&["TG.ACQUIRE", "default", "k", "6", "id"]).await;
    assert!(conflict.starts_with("-CONFLICT idempotency_conflict"), "{conflict}");
    server.end().await;
}

#[tokio::test]
async fn a_pipeline_is_answered_in_order() {
    let server = Running::with(slow()).await;
    let mut client = server.resp().await;
    let take = Resp::command(&["CL.THROTTLE", "k", "1", "1", "86400"]);
    let peek = Resp::command(&["CL.THROTTLE", "k", "1", "1", "86400", "0"]);
    let ping = Resp::command(&["PING"]);
    client
        .send([take.as_str(), &peek, &ping, &take, &take, "PING a\r\n"].concat().as_bytes())
        .await;
    client.expect("*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:86400\r\n").await;
    client.expect("*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:86400\r\n").await;
    client.expect("+PONG\r\n*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:172800\r\n").await;
    client.expect("*5\r\n:1\r\n:2\r\n:0\r\n:86400\r\n:172800\r\n$1\r\na\r\n").await;
    // More than a batch at once.
    let many = Resp::command(&["TG.ACQUIRE", "default", "m"]).repeat(2_500);
    client.send(many.as_bytes()).await;
    client.send(b"QUIT\r\n").await;
    let replies = client.rest().await;
    assert_eq!(replies.matches("*5\r\n:1\r\n").count(), 10);
    assert_eq!(replies.matches("*5\r\n:0\r\n").count(), 2_490);
    assert!(replies.ends_with("+OK\r\n"));
    server.end().await;
}

#[tokio::test]
async fn errors_name_their_field() {
    let server = Running::with(slow()).await;
    let mut client = server.resp().await;
    let cases: [(&[&str], &str); 12] = [
        (&["CL.THROTTLE", "k"], "arguments"),
        (&["CL.THROTTLE", "k", "-1", "1", "1"], "max_burst"),
        (&["CL.THROTTLE", "k", "1", "0", "1"], "invalid_request: count"),
        (&["CL.THROTTLE", "k", "1", "1", "0"], "invalid_request: period"),
        (&["CL.THROTTLE", "k", "1", "1", "1", "x"], "quantity"),
        (&["CL.THROTTLE", "", "1", "1", "1"], "key"),
        (&["TG.ACQUIRE", "unknown", "k"], "policy"),
        (&["TG.ACQUIRE", "default", "k", "0"], "cost"),
        (&["TG.REFUND"], "arguments"),
        (&["TG.REFUND", "no-receipt"], "receipt"),
        (&["TG.REFUND", "default", "k", "0"], "cost"),
        (&["GET", "k"], "unknown command 'GET'"),
    ];
    for (words, field) in cases {
        let reply = client.call(words).await;
        assert!(reply.starts_with("-ERR ") && reply.contains(field), "{words:?}: {reply}");
    }
    // Errors leave the connection open; bytes that are not RESP end it.
    client.send(b"PING\r\n*1\r\n!\r\n").await;
    assert_eq!(client.rest().await, "+PONG\r\n-ERR Protocol error: expected '$'\r\n");
    server.end().await;
}

#[tokio::test]
async fn both_protocol_versions_are_supported() {
    let server = Running::with(slow()).await;
    let mut client = server.resp().await;
    client.send(b"CLIENT SETINFO LIB-NAME x\r\nCLIENT GETNAME\r\nHELLO 4\r\n").await;
    client.expect("+OK\r\n$-1\r\n-NOPROTO unsupported protocol version\r\n").await;
    client.send(b"HELLO 3\r\n").await;
    client.expect("%7\r\n$6\r\nserver\r\n$8\r\ntollgate\r\n").await;
    client.send(b"CLIENT GETNAME\r\nQUIT\r\n").await;
    assert!(client.rest().await.ends_with("*0\r\n_\r\n+OK\r\n"));
    server.end().await;
}
