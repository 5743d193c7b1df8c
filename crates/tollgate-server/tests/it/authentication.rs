//! Failed attempts to authenticate: counted, and slow on every protocol.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::{Config, Server};
use tonic::Request;

use crate::support::{Resp, Running};

const CALLER: &str = "token-of-a-caller";
/// Attempts of one connection.
const ATTEMPTS: u32 = 5;
/// A quarter of a second; without a delay they take a millisecond.
const AT_LEAST: Duration = Duration::from_millis(250);

async fn server() -> Running {
    let variable = |name: &str| match name {
        "TOLLGATE_HTTP" | "TOLLGATE_GRPC" | "TOLLGATE_RESP" => Some("127.0.0.1:0".to_owned()),
        "TOLLGATE_TOKENS" => Some(CALLER.to_owned()),
        _ => None,
    };
    let config = Config::of_text(&[], variable, None).unwrap();
    Running::of(Server::bind(config).await.unwrap())
}

async fn counts(server: &Running, protocol: &str) {
    let request = reqwest::Client::new().get(server.url("/metrics")).bearer_auth(CALLER);
    let text = request.send().await.unwrap().text().await.unwrap();
    let count =
        format!("tollgate_authentication_failures_total{{protocol=\"{protocol}\"}} {ATTEMPTS}\n");
    assert!(text.contains(&count), "{text}");
}

#[tokio::test]
async fn guesses_over_resp_are_slow() {
    let server = server().await;
    let mut client = server.resp().await;
    let start = Instant::now();
    let guess = Resp::command(&["AUTH", "nonsense"]).repeat(3);
    let hello = Resp::command(&["HELLO", "3", "AUTH", "me", "nonsense"]).repeat(2);
    client.send([guess, hello].concat().as_bytes()).await;
    client.expect(&"-WRONGPASS invalid token\r\n".repeat(5)).await;
    assert!(start.elapsed() >= AT_LEAST);
    assert_eq!(client.call(&["AUTH", CALLER]).await, "+OK");
    counts(&server, "resp").await;
    server.end().await;
}

#[tokio::test]
async fn guesses_over_http_are_slow() {
    let server = server().await;
    let mut stream = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
    let start = Instant::now();
    let guess = "GET /metrics HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer nonsense\r\n\r\n";
    let last = "GET /v1/gate HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    stream.write_all([&guess.repeat(4), last].concat().as_bytes()).await.unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).await.unwrap();
    assert_eq!(replies.matches("HTTP/1.1 401 ").count(), 5, "{replies}");
    assert!(start.elapsed() >= AT_LEAST);
    counts(&server, "http").await;
    server.end().await;
}

/// Many streams of one connection are as slow as one.
#[tokio::test]
async fn guesses_over_grpc_are_slow() {
    let server = server().await;
    let client = server.grpc().await;
    let start = Instant::now();
    let mut guesses = tokio::task::JoinSet::new();
    for _ in 0..ATTEMPTS {
        let mut client = client.clone();
        guesses.spawn(async move {
            let acquire = pb::AcquireRequest { key: "k".to_owned(), ..Default::default() };
            let mut request = Request::new(acquire);
            request.metadata_mut().insert("authorization", "Bearer nonsense".parse().unwrap());
            client.acquire(request).await.unwrap_err().code()
        });
    }
    let codes = guesses.join_all().await;
    assert_eq!(codes, [tonic::Code::Unauthenticated; 5]);
    assert!(start.elapsed() >= AT_LEAST);
    counts(&server, "grpc").await;
    server.end().await;
}
