//! The attacks. Each has connections that are opened again when the server closes them.

use std::future::Future;
use std::pin::Pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::TcpStream;

use super::TOKEN;

/// How many commands are sent at once.
const PIPELINE: usize = 100;
/// The preface of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

type Connection = Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>>;

#[derive(Clone, Copy)]
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) protocol: &'static str,
    pub(super) connections: usize,
    /// What one connection does, until the server closes it. The number is its own.
    run: fn(TcpStream, usize) -> Connection,
}

pub(super) const ATTACKS: [Attack; 15] = [
    Attack { name: "none", protocol: "HTTP", connections: 0, run: silent },
    Attack { name: "silent HTTP clients", protocol: "HTTP", connections: 300, run: silent },
    Attack { name: "silent gRPC clients", protocol: "gRPC", connections: 300, run: silent },
    Attack { name: "gRPC clients that ping", protocol: "gRPC", connections: 300, run: ping },
    Attack { name: "bodies that do not arrive", protocol: "HTTP", connections: 300, run: no_body },
    Attack {
        name: "unfinished health checks",
        protocol: "gRPC",
        connections: 300,
        run: unfinished,
    },
    Attack { name: "replies never read", protocol: "HTTP", connections: 30, run: unread },
    Attack { name: "batches, zero window", protocol: "gRPC", connections: 30, run: no_window },
    Attack { name: "watched health", protocol: "gRPC", connections: 300, run: watch },
    Attack { name: "batches of 1,000", protocol: "HTTP", connections: 1, run: batches },
    Attack { name: "batches of 500,000", protocol: "gRPC", connections: 4, run: too_many },
    Attack { name: "CL.THROTTLE, new keys", protocol: "RESP", connections: 2, run: throttle },
    Attack { name: "request ids", protocol: "RESP", connections: 2, run: request_ids },
    Attack { name: "guessed passwords", protocol: "RESP", connections: 30, run: guess },
    Attack { name: "guesses, all connections", protocol: "RESP", connections: 300, run: guess },
];

/// Attacks over one connection after another.
pub(super) async fn repeat(attack: Attack, address: String, number: usize) {
    loop {
        if let Ok(stream) = TcpStream::connect(&address).await {
            // The server closes or resets it.
            let _closed = (attack.run)(stream, number).await;
        }
    }
}

fn silent(mut stream: TcpStream, _: usize) -> Connection {
    Box::pin(async move { copy(&mut stream, &mut sink()).await.map(drop) })
}

/// Answers each PING of the server, and asks for nothing.
fn ping(mut stream: TcpStream, _: usize) -> Connection {
    Box::pin(async move {
        stream.write_all(&[PREFACE, &frame(4, 0, 0, b"")].concat()).await?;
        loop {
            let (kind, flags, payload) = read_frame(&mut stream).await?;
            if (kind, flags & 1) == (6, 0) {
                stream.write_all(&frame(6, 1, 0, &payload)).await?;
            }
        }
    })
}

/// A request without a token, whose body does not arrive.
fn no_body(mut stream: TcpStream, _: usize) -> Connection {
    Box::pin(async move {
        let head = b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n";
        stream.write_all(head).await?;
        copy(&mut stream, &mut sink()).await.map(drop)
    })
}

/// A call that needs no token, whose message does not arrive.
fn unfinished(mut stream: TcpStream, _: usize) -> Connection {
    let head = frame(1, 4, 1, &head(b"/grpc.health.v1.Health/Check", None));
    Box::pin(async move {
        stream.write_all(&[PREFACE, &frame(4, 0, 0, b""), &head].concat()).await?;
        copy(&mut stream, &mut sink()).await.map(drop)
    })
}

fn unread(mut stream: TcpStream, _: usize) -> Connection {
    let requests = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(PIPELINE);
    Box::pin(async move {
        loop {
            stream.write_all(&requests).await?;
        }
    })
}

/// Batches whose replies the server may not send.
fn no_window(mut stream: TcpStream, _: usize) -> Connection {
    // `requests` has the number 1, `key` the number 2. The initial window is 0.
    let message = b"\x0a\x03\x12\x01k".repeat(1_000);
    let settings = frame(4, 0, 0, b"\0\x04\0\0\0\0");
    let calls = (0..10).flat_map(move |number| {
        call(2 * number + 1, b"/tollgate.v1.RateLimiter/AcquireMany", &message)
    });
    let calls: Vec<u8> = calls.collect();
    Box::pin(async move {
        stream.write_all(&[PREFACE, &settings, &calls].concat()).await?;
        copy(&mut stream, &mut sink()).await.map(drop)
    })
}

/// A batch of empty elements, as long as a message may be.
fn too_many(mut stream: TcpStream, _: usize) -> Connection {
    let message = b"\x0a\x00".repeat(500_000);
    let call = call(1, b"/tollgate.v1.RateLimiter/AcquireMany", &message);
    Box::pin(async move {
        stream.write_all(&[PREFACE, &frame(4, 0, 0, b""), &call].concat()).await?;
        answer(&mut stream).await
    })
}

fn watch(mut stream: TcpStream, _: usize) -> Connection {
    let calls =
        (0..100).flat_map(|number| call(2 * number + 1, b"/grpc.health.v1.Health/Watch", b""));
    let calls: Vec<u8> = calls.collect();
    Box::pin(async move {
        stream.write_all(&[PREFACE, &frame(4, 0, 0, b""), &calls].concat()).await?;
        copy(&mut stream, &mut sink()).await.map(drop)
    })
}

fn batches(stream: TcpStream, _: usize) -> Connection {
    let element = r#"{"key":"k"}"#;
    let body = format!(r#"{{"requests":[{}]}}"#, vec![element; 1_000].join(","));
    let length = body.len();
    let head = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n");
    let request =
        format!("POST /v1/acquire_many HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{body}");
    flood(stream, String::new(), move |_| request.clone())
}

/// Every command has a key of its own, which is drained for as long as the server accepts.
fn throttle(stream: TcpStream, connection: usize) -> Connection {
    flood(stream, auth(), move |number| {
        format!("CL.THROTTLE {connection}-{number} 1 1 2592000\r\n")
    })
}

fn request_ids(stream: TcpStream, connection: usize) -> Connection {
    flood(stream, auth(), move |number| {
        format!("TG.ACQUIRE default {connection} 1 {connection}-{number}\r\n")
    })
}

fn guess(stream: TcpStream, _: usize) -> Connection {
    flood(stream, String::new(), |number| format!("AUTH guess-{number}\r\n"))
}

fn auth() -> String {
    format!("AUTH {TOKEN}\r\n")
}

/// Sends one request after another, and reads what comes.
fn flood(
    stream: TcpStream,
    first: String,
    request: impl Fn(usize) -> String + Send + 'static,
) -> Connection {
    Box::pin(async move {
        let (mut replies, mut requests) = stream.into_split();
        let read = tokio::spawn(async move { copy(&mut replies, &mut sink()).await });
        requests.write_all(first.as_bytes()).await?;
        let mut numbers = 0..;
        loop {
            let some: String = numbers.by_ref().take(PIPELINE).map(&request).collect();
            if requests.write_all(some.as_bytes()).await.is_err() {
                return read.await.unwrap().map(drop);
            }
        }
    })
}

/// A frame of HTTP/2.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The headers of a gRPC call: indexed fields, and literals that are not indexed.
fn head(path: &[u8], token: Option<&str>) -> Vec<u8> {
    let path = [&[u8::try_from(path.len()).unwrap()], path].concat();
    let fields = b"\x01\x09localhost\x0f\x10\x10application/grpc\x00\x02te\x08trailers";
    let mut head = [b"\x83\x86\x04".as_slice(), &path, fields].concat();
    if let Some(token) = token {
        let token = format!("Bearer {token}");
        head.extend(b"\x00\x0dauthorization");
        head.push(u8::try_from(token.len()).unwrap());
        head.extend(token.as_bytes());
    }
    head
}

/// A gRPC call of a caller: a frame with its fields, and those with its message.
fn call(stream: u32, path: &[u8], message: &[u8]) -> Vec<u8> {
    [frame(1, 4, stream, &head(path, Some(TOKEN))), data(stream, message)].concat()
}

/// The frames of a message, of the longest that every server accepts.
fn data(stream: u32, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [b"\0".as_slice(), &length, message].concat();
    let mut frames: Vec<_> = body.chunks(16_384).map(|part| (part, 0)).collect();
    frames.last_mut().unwrap().1 = 1;
    frames.into_iter().flat_map(|(part, flags)| frame(0, flags, stream, part)).collect()
}

/// A health check that needs no token.
pub(super) fn health_check() -> Vec<u8> {
    let head = frame(1, 4, 1, &head(b"/grpc.health.v1.Health/Check", None));
    [PREFACE, &frame(4, 0, 0, b""), &head, &data(1, b"")].concat()
}

/// Reads until a call is answered.
pub(super) async fn answer(stream: &mut TcpStream) -> std::io::Result<()> {
    loop {
        let (kind, flags, _) = read_frame(stream).await?;
        // The end of a stream, with or without a message before it.
        if matches!((kind, flags & 1), (0 | 1, 1)) {
            return Ok(());
        }
    }
}

/// The kind, the flags and the content of the next frame.
async fn read_frame(stream: &mut TcpStream) -> std::io::Result<(u8, u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut payload).await?;
    Ok((head[3], head[4], payload))
}
