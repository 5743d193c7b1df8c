//! Malformed input: no panic, no 500, and the server still answers.

use tokio::io::AsyncWriteExt;
use tollgate_server::Config;
use tollgate_testkit::rng::Rng;

use crate::support::{Resp, Running, slow};

const SEED: u64 = 20_261_115;

/// A text with some bytes changed, removed, inserted, cut off or repeated.
pub(crate) fn mutated(rng: &mut Rng, text: &[u8]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..=rng.below(6) {
        let index = |rng: &mut Rng, bytes: &[u8]| {
            usize::try_from(rng.below(u64::try_from(bytes.len().max(1)).unwrap())).unwrap()
        };
        let (at, other) = (index(rng, &bytes), index(rng, &bytes));
        match rng.below(5) {
            _ if bytes.is_empty() => bytes.push(b'{'),
            0 => bytes[at] = u8::try_from(rng.below(256)).unwrap(),
            1 => {
                bytes.remove(at);
            }
            2 => bytes.insert(at, bytes[other]),
            3 => bytes.truncate(at),
            _ => {
                let piece = bytes[at.min(other)..at.max(other)].to_vec();
                bytes.extend(piece);
            }
        }
    }
    bytes
}

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
async fn mutated_bodies_are_never_a_failure_of_the_server() {
    println!("seed {SEED}");
    let (mut rng, client) = (Rng::new(SEED), reqwest::Client::new());
    let server = Running::with(slow()).await;
    let bodies: [(&str, &[u8]); 3] = [
        ("/v1/acquire", br#"{"policy":"default","key":"user:1","cost":1,"request_id":"abc"}"#),
        ("/v1/acquire_many", br#"{"requests":[{"key":"a","cost":2},{"key":"b"}]}"#),
        ("/v1/refund", br#"{"key":"a","cost":2,"reset_at_ms":1800000000000}"#),
    ];
    for turn in 0..600 {
        let (path, body) = bodies[turn % 3];
        let reply =
            client.post(server.url(path)).body(mutated(&mut rng, body)).send().await.unwrap();
        assert!(reply.status().as_u16() < 500, "{path} {}", reply.text().await.unwrap());
    }
    server.end().await;
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
