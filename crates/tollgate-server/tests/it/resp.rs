//! The RESP interface.

use std::time::Duration;

use serde_json::json;
use tollgate::{ManualClock, Quota};
use tollgate_server::Config;
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
    let cases: [(&[&str], &str); 14] = [
        (&["CL.THROTTLE", "k"], "arguments"),
        (&["TG.FORECAST", "default"], "arguments"),
        (&["TG.RESET", "default"], "arguments"),
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

fn policies(text: &str) -> Policies {
    Config::of_text(&[], |_| None, Some(("t.yaml", text))).unwrap().policies
}

#[tokio::test]
async fn every_field_reaches_callers_of_both_versions() {
    let clock = ManualClock::at(NOW);
    let text = "policies:
  q: {algorithm: leaky_bucket, rate: 1 per 1s, queue: 3}
  s: {limit: 1 per 1s, shadow: true}
";
    let server = Running::with_clock(policies(text), &clock).await;
    let mut client = server.resp().await;
    let now = NOW / 1_000;
    let first = client.reply(&["TG.ACQUIRE", "q", "k", "1", "FULL"]).await;
    let standing = |left, reset| json!(["q", "q", 4, left, 0, reset, null]);
    assert_eq!(
        first,
        json!([
            1,
            4,
            3,
            0,
            now + 1_000,
            0,
            null,
            0,
            null,
            "allowed",
            "q",
            null,
            null,
            null,
            [standing(3, now + 1_000)]
        ])
    );
    let second = client.reply(&["TG.ACQUIRE", "q", "k", "1", "id", "full"]).await;
    let receipt = second[6].clone();
    assert!(receipt.is_string() && second[7] == 1_000, "a delay of a second: {second}");
    // The short reply has no place for a delay, so nothing is charged.
    for words in [vec!["TG.ACQUIRE", "q", "k"], vec!["TG.ACQUIRE", "q", "k", "1", "x", "RECEIPT"]] {
        let refused = client.call(&words).await;
        assert!(refused.starts_with("-ERR unsupported: policy"), "{refused}");
    }
    assert_eq!(client.reply(&["TG.PEEK", "q", "k"]).await[2], 2);
    client.send(b"HELLO 3\r\n").await;
    client.value().await;
    let replay = client.reply(&["TG.ACQUIRE", "q", "k", "1", "id"]).await;
    let expected = json!({
        "allowed": true, "verdict": "allowed", "limit": 4, "remaining": 2, "retry_after_ms": 0,
        "reset_at_ms": now + 2_000, "replayed": true, "receipt": receipt, "delay_ms": 1_000,
        "policy": "q",
        "limits": [{"name": "q", "policy": "q", "limit": 4, "remaining": 2, "retry_after_ms": 0,
                    "reset_at_ms": now + 2_000}],
    });
    assert_eq!(replay, expected);
    client.reply(&["TG.ACQUIRE", "s", "k"]).await;
    let shadow = client.reply(&["TG.ACQUIRE", "s", "k"]).await;
    assert_eq!((&shadow["allowed"], &shadow["shadow"]), (&json!(true), &json!("denied")));
    let never = client.reply(&["TG.PEEK", "q", "k", "5"]).await;
    assert_eq!((&never["verdict"], &never["retry_after_ms"]), (&json!("never"), &json!(-1)));
    let forecast = client.reply(&["TG.FORECAST", "q", "k", "s", "k"]).await;
    assert_eq!((&forecast["spendable_now"], &forecast["limit"]), (&json!(2), &json!(4)));
    assert_eq!(client.call(&["TG.RESET", "q", "k"]).await, "+OK");
    assert_eq!(client.reply(&["TG.PEEK", "q", "k"]).await["remaining"], 4);
    server.end().await;
}

#[tokio::test]
async fn several_charges_and_ranges_are_words() {
    let text = "policies: {user: {limit: 10 per 1d}, address: {limit: 4 per 1d}}";
    let server = Running::with(policies(text)).await;
    let mut client = server.resp().await;
    let all = ["TG.ACQUIREALL", "2", "user", "ada", "3", "address", "a", "1..9", "id"];
    let first = client.reply(&all).await;
    assert_eq!((&first[0], &first[8], &first[10]), (&json!(1), &json!(4), &json!("address")));
    assert_eq!(first[14].as_array().unwrap().len(), 2);
    let replay = client.reply(&all).await;
    assert_eq!((&replay[5], &replay[6]), (&json!(1), &first[6]));
    let denied =
        client.reply(&["TG.ACQUIREALL", "2", "user", "ada", "3", "address", "a", "1"]).await;
    assert_eq!((&denied[0], &denied[14][0][3]), (&json!(0), &json!(7)), "uncharged: {denied}");
    let range = client.reply(&["TG.ACQUIRE", "user", "ada", "2..100"]).await;
    assert_eq!((&range[2], &range[8]), (&json!(0), &json!(7)));
    assert_eq!(client.reply(&["TG.PEEK", "user", "bob", "1..100"]).await[8], 10);
    let cases: [(&[&str], &str); 9] = [
        (&["TG.ACQUIREALL", "2", "user", "ada", "3"], "arguments"),
        (&["TG.ACQUIREALL", "0"], "n: is out of range"),
        (&["TG.ACQUIREALL", "17"], "n: is out of range"),
        (&["TG.ACQUIREALL", "1", "user", "ada", "0"], "charges[0].cost"),
        (&["TG.ACQUIREALL", "2", "user", "a", "1", "x", "b", "1"], "charges[1].policy"),
        (&["TG.ACQUIRE", "user", "ada", "3..2"], "cost: 3 is more than 2"),
        (&["TG.ACQUIRE", "user", "ada", "0..2"], "cost"),
        (&["TG.ACQUIRE", "user", "ada", "1..x"], "cost"),
        (&["TG.REFUND", "user", "ada", "1..2"], "cost: is a range"),
    ];
    for (words, field) in cases {
        let reply = client.call(words).await;
        assert!(reply.starts_with("-ERR ") && reply.contains(field), "{words:?}: {reply}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_transaction_is_queued_and_answered_by_one_array() {
    let server = Running::with(slow()).await;
    let mut client = server.resp().await;
    assert_eq!(client.call(&["SELECT", "0"]).await, "+OK");
    assert!(client.call(&["SELECT", "1"]).await.starts_with("-ERR DB index is out of range"));
    assert_eq!(client.call(&["EXEC"]).await, "-ERR EXEC without MULTI");
    assert_eq!(client.call(&["DISCARD"]).await, "-ERR DISCARD without MULTI");
    assert_eq!(client.call(&["MULTI"]).await, "+OK");
    let commands: [&[&str]; 5] = [
        &["TG.ACQUIRE", "default", "k", "4"],
        &["TG.ACQUIRE", "default", "k", "0"],
        &["TG.PEEK", "default", "k"],
        &["TG.ACQUIRE", "default", "k", "7"],
        &["PING"],
    ];
    for words in commands {
        assert_eq!(client.call(words).await, "+QUEUED", "{words:?}");
    }
    assert_eq!(client.call(&["MULTI"]).await, "-ERR MULTI calls can not be nested");
    let replies = client.reply(&["EXEC"]).await;
    assert_eq!(replies.as_array().unwrap().len(), 5);
    // An error of one leaves the others as they are.
    assert!(replies[1].as_str().unwrap().starts_with("-ERR invalid_request: cost"), "{replies}");
    let rest = [&replies[0][2], &replies[2][2], &replies[3][0], &replies[4]];
    assert_eq!(rest, [&json!(6), &json!(6), &json!(0), &json!("+PONG")]);

    // What is no command, or has too few words, discards all of them.
    for wrong in [&["GET", "k"][..], &["TG.PEEK", "default"], &["AUTH", "x"], &["HELLO", "3"]] {
        assert_eq!(client.call(&["MULTI"]).await, "+OK");
        assert_eq!(client.call(&["TG.ACQUIRE", "default", "k"]).await, "+QUEUED");
        assert!(client.call(wrong).await.starts_with("-ERR"), "{wrong:?}");
        assert!(client.call(&["EXEC"]).await.starts_with("-EXECABORT "), "{wrong:?}");
    }
    assert_eq!(client.call(&["MULTI"]).await, "+OK");
    assert_eq!(client.call(&["TG.ACQUIRE", "default", "k"]).await, "+QUEUED");
    assert_eq!(client.call(&["DISCARD"]).await, "+OK");
    assert_eq!(client.reply(&["TG.PEEK", "default", "k"]).await[2], 6);

    // The queue is bounded.
    let many = Resp::command(&["PING"]).repeat(1_001);
    client
        .send(
            [&Resp::command(&["MULTI"]), &many, &Resp::command(&["EXEC"])]
                .map(String::as_str)
                .concat()
                .as_bytes(),
        )
        .await;
    client.send(b"MULTI\r\n").await;
    for _ in 0..6 {
        client.send(Resp::command(&["PING", &"x".repeat(60_000)]).as_bytes()).await;
    }
    client.send(b"EXEC\r\nQUIT\r\n").await;
    let replies = client.rest().await;
    assert_eq!(replies.matches("-ERR too many commands after MULTI").count(), 2, "{replies}");
    assert_eq!(replies.matches("-EXECABORT").count(), 2, "{replies}");
    server.end().await;
}
