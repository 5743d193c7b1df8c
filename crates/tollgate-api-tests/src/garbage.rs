//! Malformed input: no 500, and the server still answers.

use tollgate_testkit::rng::Rng;

use crate::{ADMIN, Client, Running, SLOW, Setup, Target};

const SEED: u64 = 20_261_115;

/// A text with some bytes changed, removed, inserted, cut off or repeated.
#[must_use]
pub fn mutated(rng: &mut Rng, text: &[u8]) -> Vec<u8> {
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

/// Mutated bodies are refused, and none is a failure of the server.
pub async fn mutated_bodies_are_never_a_failure_of_the_server(target: &impl Target) {
    println!("seed {SEED}");
    let (mut rng, http) = (Rng::new(SEED), reqwest::Client::new());
    let server = target.start(Setup { admin_tokens: &[ADMIN], ..Setup::of(SLOW) }).await;
    let client = Client::of(&server);
    let bodies: [(&str, &[u8]); 4] = [
        ("/v1/acquire", br#"{"policy":"default","key":"user:1","cost":1,"request_id":"abc"}"#),
        ("/v1/acquire_many", br#"{"requests":[{"key":"a","cost":2},{"key":"b"}]}"#),
        ("/v1/refund", br#"{"key":"a","cost":2}"#),
        ("/v1/refund", br#"{"receipt":"AQAAAAAAAAAA"}"#),
    ];
    for turn in 0..600 {
        let (path, body) = bodies[turn % 3];
        let request = http.post(client.url(path)).bearer_auth(ADMIN);
        let reply = request.body(mutated(&mut rng, body)).send().await.unwrap();
        assert!(reply.status().as_u16() < 500, "{path} {}", reply.text().await.unwrap());
    }
    server.end().await;
}

/// A key that is no UTF-8 is refused, and any other one is accepted.
pub async fn keys_of_the_gate_are_utf_8(target: &impl Target) {
    let server = target.start(Setup::of(SLOW)).await;
    let client = Client::of(&server);
    for query in
        ["key=%ff", "key=%fe", "key=a%c3&cost=1", "policy=%ff&key=k", "key=k&request_id=%80"]
    {
        let reply = client.get(&format!("/v1/gate?{query}")).await;
        assert_eq!(reply.status().as_u16(), 400, "{query}");
        assert!(reply.text().await.unwrap().contains("is not UTF-8"), "{query}");
    }
    for query in ["key=%EF%BF%BD", "key=%C3%A9&cost=1", "key=%zz", "key=100%25", "key=a+b", "key=%"]
    {
        let reply = client.get(&format!("/v1/gate?{query}")).await;
        assert_eq!(reply.status().as_u16(), 204, "{query}");
    }
    server.end().await;
}

/// What the API does not read may be of any bytes, and a query of any length that a proxy passes.
pub async fn headers_that_are_not_ascii_are_no_obstacle(target: &impl Target) {
    let server = target.start(Setup::of(SLOW)).await;
    let client = Client::of(&server);
    let http = reqwest::Client::new();
    for value in [&b"caf\xc3\xa9"[..], b"caf\xe9", b"\xff\xfe"] {
        let request = http.get(client.url("/v1/gate?key=k")).header("x-name", value);
        assert_eq!(request.send().await.unwrap().status().as_u16(), 204, "{value:?}");
    }
    let long = client.get(&format!("/v1/gate?key={}", "k".repeat(8_000))).await;
    assert_eq!(long.status().as_u16(), 400);
    assert!(long.text().await.unwrap().contains("\"key\""));
    server.end().await;
}
