//! Malformed input: no panic, no 500, and the server still answers.

use tokio::io::AsyncWriteExt;
use tollgate_api_tests::garbage::mutated;
use tollgate_server::Config;
use tollgate_testkit::rng::Rng;

use crate::support::{Resp, Running, slow};

const SEED: u64 = 20_261_115;

#[test]
fn mutated_files_never_panic() {
    println!("seed {SEED}");
    let mut rng = Rng::new(SEED);
    let text = b"store: 'memory:'
deadline: 100ms
policies:
  a: {limit: 100 per 1m, burst: 20}
  g:
    limits:
      - {name: s, limit: 5 per 1s}
      - {name: d, algorithm: sliding_window, limit: 60 per 1m, buckets: 6}
    overrides: {vip: {limits: [{name: s, limit: 1 per 1s}]}}
";
    let mut refused = 0;
    for _ in 0..3_000 {
        let bytes = mutated(&mut rng, text);
        let file = String::from_utf8_lossy(&bytes);
        refused += u64::from(Config::of_text(&[], |_| None, Some(("t.yaml", &file))).is_err());
    }
    assert!(refused > 1_000, "{refused}");
}

#[tokio::test]
async fn mutated_commands_at_most_end_a_connection() {
    println!("seed {SEED}");
    let mut rng = Rng::new(SEED);
    let server = Running::with(slow()).await;
    let text = [
        Resp::command(&["CL.THROTTLE", "k", "15", "30", "60"]),
        Resp::command(&["TG.ACQUIRE", "default", "k", "1", "id"]),
        "PING\r\n".to_owned(),
    ]
    .concat();
    for _ in 0..300 {
        let mut client = server.resp().await;
        client.send(&mutated(&mut rng, text.as_bytes())).await;
        // The server may have closed the connection already.
        let _closed = client.0.shutdown().await;
        client.rest_bytes().await;
    }
    assert_eq!(server.resp().await.call(&["PING"]).await, "+PONG");
    server.end().await;
}
