//! Requests that are not what they should be, byte by byte: each is refused by its own status, and
//! the client can read it.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_server::{Config, Server};
use tonic::Code;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

use crate::support::{Running, slow};

const LONG: Duration = Duration::from_secs(60);

/// Sends bytes and reads until the server closes.
async fn exchange(server: &Running, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut reply = Vec::new();
    let read = tokio::time::timeout(LONG, stream.read_to_end(&mut reply));
    // It may reset the connection after a reply to what it did not read.
    let _reset = read.await.expect("the server closes the connection");
    String::from_utf8(reply).unwrap()
}

#[tokio::test]
async fn a_request_has_one_host() {
    let server = Running::with(slow()).await;
    let cases = [
        ("HTTP/1.1\r\n", 400),
        ("HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", 400),
        ("HTTP/1.1\r\nHost: a b\r\n", 400),
        ("HTTP/1.1\r\nHost: localhost\r\n", 200),
        ("HTTP/1.0\r\n", 200),
    ];
    for (head, status) in cases {
        for path in ["/healthz", "/openapi.json"] {
            let request = format!("GET {path} {head}Connection: close\r\n\r\n");
            let reply = exchange(&server, request.as_bytes()).await;
            assert_eq!(reply.split(' ').nth(1), Some(&*status.to_string()), "{request} {reply}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn headers_are_bounded_as_documented() {
    let server = Running::with(slow()).await;
    let with = |fields: usize, bytes: usize| {
        let fields: String =
            (0..fields).map(|n| format!("X-{n}: {}\r\n", "x".repeat(bytes))).collect();
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n")
    };
    for (fields, bytes, status) in
        [(1, 60_000, "200"), (90, 600, "200"), (1, 70_000, "431"), (101, 1, "431")]
    {
        let reply = exchange(&server, with(fields, bytes).as_bytes()).await;
        assert_eq!(reply.split(' ').nth(1), Some(status), "{fields} {bytes} {reply}");
    }
    for (bytes, accepted) in [(14_000, true), (17_000, false), (60_000, false)] {
        let mut client = server.grpc().await;
        let mut request = Request::new(tollgate_proto::tollgate_v1::AcquireRequest {
            key: "k".to_owned(),
            ..Default::default()
        });
        request.metadata_mut().insert("x-long", "x".repeat(bytes).parse().unwrap());
        assert_eq!(client.acquire(request).await.is_ok(), accepted, "{bytes}");
    }
    server.end().await;
}

/// A client that writes a long body before it reads gets the answer, and no broken pipe.
#[tokio::test]
async fn a_rejected_client_can_write_its_body_to_the_end() {
    let variable = |name: &str| match name {
        "TOLLGATE_HTTP" | "TOLLGATE_GRPC" | "TOLLGATE_RESP" => Some("127.0.0.1:0".to_owned()),
        "TOLLGATE_TOKENS" => Some("token-of-a-caller".to_owned()),
        _ => None,
    };
    let config = Config::of_text(&[], variable, None).unwrap();
    let server = Running::of(Server::bind(config).await.unwrap());
    // More than sockets buffer.
    let body = vec![b' '; 7_000_000];
    for (path, status) in [("/v1/acquire", "401"), ("/nowhere", "404"), ("/healthz", "405")] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n");
        let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
        let reply = exchange(&server, &[head.as_bytes(), &body].concat()).await;
        assert_eq!(reply.split(' ').nth(1), Some(status), "{reply}");
    }
    server.end().await;
}

/// Sends bytes that are no message.
#[derive(Clone, Copy, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, _: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        Ok(Some(()))
    }
}

#[tokio::test]
async fn a_malformed_message_is_an_invalid_argument() {
    let server = Running::with(slow()).await;
    let mut client = tonic::client::Grpc::new(server.channel().await);
    for path in ["/tollgate.v1.RateLimiter/Acquire", "/ratelimit.v1.RateLimiter/Acquire"] {
        client.ready().await.unwrap();
        // A text that is longer than the message.
        let request = Request::new(b"\x0a\xff".to_vec());
        let path = PathAndQuery::from_static(path);
        let status = client.unary(request, path, Bytes).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    }
    server.end().await;
}

/// Clients that have connected before the shutdown, and send their request after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_wait_at_shutdown_are_answered() {
    let server = Running::with(slow()).await;
    let address = server.at.http.unwrap();
    let mut clients = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"POST /v1/peek HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\n";
        stream.write_all(request).await.unwrap();
        stream.write_all(br#"{"key":"k"}"#).await.unwrap();
        clients.push(stream);
    }
    let ending = server.shut_down();
    for mut stream in clients {
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        assert!(reply.starts_with("HTTP/1.1 200 OK"), "{reply}");
    }
    tokio::time::timeout(LONG, ending).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
