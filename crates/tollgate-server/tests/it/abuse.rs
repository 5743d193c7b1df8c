//! Clients that hold resources: each is disconnected in time, and none keeps others from being
//! served.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::{Config, Server};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::{PREFACE, Resp, Running, frame, head};

/// Far more than any limit of these tests.
const LONG: Duration = Duration::from_secs(60);
const CALLER: &str = "token-of-a-caller";
/// A server with settings of its own, by their names. Limits that a test does not set are long.
async fn server(settings: &[(&str, &str)]) -> Running {
    let variable = |name: &str| {
        let name = name.strip_prefix("TOLLGATE_")?.to_lowercase();
        let set = settings.iter().find(|(setting, _)| *setting == name);
        let otherwise = match name.as_str() {
            "http" | "grpc" | "resp" => Some("127.0.0.1:0"),
            "first_request_timeout" | "request_timeout" | "reply_timeout" => Some("1h"),
            "idle_timeout" => Some("1h"),
            _ => None,
        };
        set.map(|(_, value)| *value).or(otherwise).map(str::to_owned)
    };
    let config = Config::of_text(&[], variable, None).unwrap();
    Running::of(Server::bind(config).await.unwrap())
}

/// Sends a request over HTTP; the status of the answer.
async fn status_of(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut line = [0; 12];
    let read = timeout(LONG, stream.read_exact(&mut line)).await;
    read.expect("an answer").unwrap();
    String::from_utf8_lossy(&line[9..]).into_owned()
}

/// Reads until the server closes.
async fn end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut bytes));
    let _reset = read.await.expect("the server closes the connection");
    bytes
}

/// Sends, and sends again after each reply, until the server closes.
async fn send_until_closed(mut stream: TcpStream, bytes: &[u8]) {
    let mut reply = [0; 4_096];
    let sent = async {
        while stream.write_all(bytes).await.is_ok() {
            if !matches!(stream.read(&mut reply).await, Ok(1..)) {
                return;
            }
        }
    };
    timeout(LONG, sent).await.expect("the server closes the connection");
}

async fn metrics(server: &Running) -> String {
    let request = reqwest::Client::new().get(server.url("/metrics")).bearer_auth(CALLER);
    request.send().await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn a_client_without_a_valid_request_is_closed_whatever_it_sends() {
    let settings = [("first_request_timeout", "200ms"), ("tokens", CALLER)];
    let server = server(&settings).await;
    let (http, grpc, resp) =
        (server.at.http.unwrap(), server.at.grpc.unwrap(), server.at.resp.unwrap());
    // Silence.
    for address in [http, grpc, resp] {
        end(&mut TcpStream::connect(address).await.unwrap()).await;
    }
    let health = b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n".as_slice();
    let refused = b"GET /metrics HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer x\r\n\r\n".as_slice();
    let ping = b"\0\0\x08\x06\0\0\0\0\0ponypony".as_slice();
    let cases = [
        (http, health),
        (http, refused),
        (http, b"G"),
        (grpc, ping),
        (resp, b"PING\r\n"),
        (resp, b"*"),
    ];
    for (address, bytes) in cases {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if address == grpc {
            stream.write_all(PREFACE).await.unwrap();
        }
        send_until_closed(stream, bytes).await;
    }
    let text = metrics(&server).await;
    assert!(text.contains(r#"{protocol="grpc",reason="first_request"} 2"#), "{text}");
    server.end().await;
}

#[tokio::test]
async fn after_a_valid_request_a_connection_is_kept_until_it_is_idle_for_long() {
    let settings = [("first_request_timeout", "100ms"), ("idle_timeout", "600ms")];
    let server = server(&settings).await;
    let start = Instant::now();
    let mut http = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
    http.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut resp = server.resp().await;
    assert_eq!(resp.call(&["PING"]).await, "+PONG");
    let mut grpc = server.grpc().await;
    let request = pb::AcquireRequest { key: "k".to_owned(), ..Default::default() };
    grpc.acquire(request.clone()).await.unwrap();
    assert!(end(&mut http).await.starts_with(b"HTTP/1.1 200"));
    assert!(start.elapsed() >= Duration::from_millis(600));
    assert_eq!(resp.rest_bytes().await, b"");
    let text = metrics(&server).await;
    assert!(text.contains(r#"{protocol="http",reason="idle"} 1"#), "{text}");
    // The client connects again, without an error that its caller would see.
    grpc.acquire(request).await.unwrap();
    server.end().await;
}

#[tokio::test]
async fn a_request_has_to_arrive_in_time() {
    let server = server(&[("request_timeout", "200ms")]).await;
    let mut http = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
    http.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    http.read_exact(&mut first).await.unwrap();
    send_until_closed(http, b"G").await;
    let mut resp = server.resp().await;
    assert_eq!(resp.call(&["PING"]).await, "+PONG");
    resp.send(b"*2\r\n$4\r\nPING\r\n$9999\r\n").await;
    send_until_closed(resp.0, b"x").await;
    let text = metrics(&server).await;
    for protocol in ["http", "resp"] {
        let closed = format!(r#"{{protocol="{protocol}",reason="request"}} 1"#);
        assert!(text.contains(&closed), "{text}");
    }
    server.end().await;
}

/// Sends requests without end, and reads nothing.
async fn never_read(stream: &mut TcpStream, request: &[u8]) {
    let many = request.repeat(1_000);
    let written = async { while stream.write_all(&many).await.is_ok() {} };
    timeout(LONG, written).await.expect("the server closes the connection");
}

#[tokio::test]
async fn a_reply_has_to_be_taken_in_time() {
    let server = server(&[("reply_timeout", "300ms")]).await;
    let mut http = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
    never_read(&mut http, b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let mut resp = server.resp().await;
    never_read(&mut resp.0, Resp::command(&["TG.ACQUIRE", "default", "k"]).as_bytes()).await;
    let text = metrics(&server).await;
    for protocol in ["http", "resp"] {
        let closed = format!(r#"{{protocol="{protocol}",reason="reply"}} 1"#);
        assert!(text.contains(&closed), "{text}");
    }
    server.end().await;
}

#[tokio::test]
async fn the_longest_idle_connection_makes_room_for_a_new_one() {
    let server = server(&[("connections", "3")]).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = server.resp().await;
        assert_eq!(client.call(&["PING"]).await, "+PONG");
        clients.push(client);
    }
    assert_eq!(clients[0].call(&["PING"]).await, "+PONG");
    let mut fourth = server.resp().await;
    assert_eq!(timeout(LONG, fourth.call(&["PING"])).await.expect("it is served"), "+PONG");
    assert_eq!(clients[1].rest_bytes().await, b"");
    for index in [0, 2] {
        assert_eq!(clients[index].call(&["PING"]).await, "+PONG");
    }
    // Silent clients make room as well.
    let silent = [(); 5].map(|()| TcpStream::connect(server.at.http.unwrap()));
    let mut held = Vec::new();
    for connecting in silent {
        held.push(connecting.await.unwrap());
    }
    let health = timeout(LONG, reqwest::get(server.url("/healthz"))).await.expect("a reply");
    assert_eq!(health.unwrap().status().as_u16(), 200);
    server.end().await;
}

#[tokio::test]
async fn health_is_answered_when_every_connection_is_busy() {
    let server = server(&[("connections", "2")]).await;
    let mut busy = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
        let head = "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\
                    Expect: 100-continue\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut interim = [0; 25];
        stream.read_exact(&mut interim).await.unwrap();
        busy.push(stream);
    }
    let status = async |path: &str| {
        let reply = timeout(LONG, reqwest::get(server.url(path))).await.expect("a reply");
        reply.unwrap().status().as_u16()
    };
    // More than are reserved, and none of them sends anything.
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(server.at.http.unwrap()).await.unwrap());
    }
    // Nor do the bodies arrive that these announce.
    let head = "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\r\n";
    for _ in 0..100 {
        let mut stream = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
        assert_eq!(status_of(&mut stream, head).await, "503");
        silent.push(stream);
    }
    assert_eq!(status("/healthz").await, 200);
    assert_eq!(status("/readyz").await, 200);
    assert_eq!(status("/v1/gate?key=k").await, 503);
    for stream in &mut busy {
        stream.write_all(br#"{"key":"k"}"#).await.unwrap();
        let mut reply = [0; 15];
        stream.read_exact(&mut reply).await.unwrap();
        assert_eq!(&reply, b"HTTP/1.1 200 OK");
    }
    assert_eq!(status("/v1/gate?key=k").await, 204);
    server.end().await;
}

#[tokio::test]
async fn grpc_health_is_answered_when_every_connection_is_busy() {
    let server = server(&[("connections", "2")]).await;
    let mut unfinished = Vec::new();
    // Those that are reserved as well.
    for _ in 0..100 {
        let mut stream = TcpStream::connect(server.at.grpc.unwrap()).await.unwrap();
        let check = frame(1, 4, 1, &head(b"/grpc.health.v1.Health/Check"));
        // The reply to a PING says that the call has begun.
        let ping = frame(6, 0, 0, b"pingpong");
        stream.write_all(&[PREFACE, &check, &ping].concat()).await.unwrap();
        let mut reply = Vec::new();
        while !reply.windows(8).any(|bytes| bytes == b"pingpong") {
            let read = timeout(LONG, stream.read_buf(&mut reply)).await.expect("a reply");
            assert!(read.unwrap() > 0, "the server closed the connection");
        }
        unfinished.push(stream);
    }
    let mut client = HealthClient::new(server.channel().await);
    let request = HealthCheckRequest { service: String::new() };
    let reply = timeout(LONG, client.check(request)).await.expect("a reply");
    assert_eq!(reply.unwrap().into_inner().status, 1);
    server.end().await;
}

/// A client without a token keeps no caller out, whatever it sends.
#[tokio::test]
async fn clients_without_a_valid_request_make_room_first_even_when_they_are_busy() {
    let server = server(&[("connections", "3"), ("tokens", CALLER)]).await;
    let gate =
        format!("GET /v1/gate?key=k HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {CALLER}\r\n\r\n");
    let mut first = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
    assert_eq!(status_of(&mut first, &gate).await, "204");
    let mut busy = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
        let head = b"POST /v1/acquire HTTP/1.1\r\nHost: t\r\nContent-Length: 11\r\n\r\n";
        stream.write_all(head).await.unwrap();
        busy.push(stream);
    }
    let mut second = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
    assert_eq!(status_of(&mut second, &gate).await, "204");
    first.write_all(gate.as_bytes()).await.unwrap();
    end(&mut busy.remove(0)).await;
    let mut rest = Vec::new();
    while !String::from_utf8_lossy(&rest).contains("HTTP/1.1 204") {
        let read = timeout(LONG, first.read_buf(&mut rest)).await.expect("an answer");
        assert!(read.unwrap() > 0, "the connection of a caller was closed");
    }
    let mut resp = server.resp().await;
    assert_eq!(resp.call(&["AUTH", CALLER]).await, "+OK");
    let mut guessing = Vec::new();
    for _ in 0..2 {
        let mut client = server.resp().await;
        client.send(Resp::command(&["AUTH", "a-guessed-token"]).repeat(1_000).as_bytes()).await;
        guessing.push(client);
    }
    let mut other = server.resp().await;
    assert_eq!(timeout(LONG, other.call(&["AUTH", CALLER])).await.expect("it is served"), "+OK");
    guessing.remove(0).rest_bytes().await;
    assert_eq!(resp.call(&["PING"]).await, "+PONG");
    server.end().await;
}

#[tokio::test]
async fn health_watches_are_few() {
    let server = server(&[("connections", "10")]).await;
    let watch = async |client: &mut HealthClient<_>| {
        let request = HealthCheckRequest { service: String::new() };
        client.watch(request).await.map(tonic::Response::into_inner)
    };
    let mut watches = Vec::new();
    for expected in [4, 4, 2, 0] {
        let mut client = HealthClient::new(server.channel().await);
        for number in 0..6 {
            match watch(&mut client).await {
                Ok(stream) => watches.push(stream),
                Err(status) => assert_eq!(status.code(), Code::ResourceExhausted),
            }
            let accepted = watches.len();
            assert!(number < expected || accepted % 4 == 0 || accepted == 10, "{accepted}");
        }
        // Other methods are answered.
        let request = HealthCheckRequest { service: String::new() };
        client.check(request).await.unwrap();
    }
    assert_eq!(watches.len(), 10);
    // A watch that ends makes room for another one.
    watches.clear();
    let mut client = HealthClient::new(server.channel().await);
    let again = async {
        while watch(&mut client).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, again).await.expect("a watch");
    server.end().await;
}

/// Each would cost a refusal, and memory until then.
#[tokio::test]
async fn a_client_without_a_token_is_refused_few_watches() {
    let settings = [("first_request_timeout", "500ms"), ("tokens", CALLER)];
    let server = server(&settings).await;
    let mut stream = TcpStream::connect(server.at.grpc.unwrap()).await.unwrap();
    let watch = |number: u32| {
        let head = frame(1, 4, 2 * number + 1, &head(b"/grpc.health.v1.Health/Watch"));
        [head, frame(0, 1, 2 * number + 1, b"\0\0\0\0\0")].concat()
    };
    let watches: Vec<u8> = (0..100).flat_map(watch).collect();
    stream.write_all(&[PREFACE, &watches].concat()).await.unwrap();
    let answers = end(&mut stream).await;
    // The kind of a frame of fields follows the length of its fields.
    let (mut rest, mut answered) = (answers.as_slice(), 0);
    while let Some(([high, middle, low, kind], _)) = rest.split_first_chunk() {
        answered += usize::from(*kind == 1);
        let length = u32::from_be_bytes([0, *high, *middle, *low]);
        rest = rest.get(9 + usize::try_from(length).unwrap()..).unwrap_or_default();
    }
    assert!((12..50).contains(&answered), "{answered} of 100 were answered");
    let text = metrics(&server).await;
    assert!(text.contains(r#"{protocol="grpc",reason="first_request"} 1"#), "{text}");
    server.end().await;
}

/// A call of AcquireMany with a full batch.
fn full_batch(stream: u32) -> Vec<u8> {
    let head = head(b"/tollgate.v1.RateLimiter/AcquireMany");
    // `requests` has the number 1, `key` the number 2.
    let message = b"\x0a\x03\x12\x01k".repeat(1_000);
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let body = [b"\0".as_slice(), &length, &message].concat();
    [frame(1, 4, stream, &head), frame(0, 1, stream, &body)].concat()
}

/// A client that grants no window makes the server keep the reply to one batch, and not to many.
#[tokio::test]
async fn replies_that_are_kept_for_a_connection_are_bounded() {
    let server = server(&[("reply_timeout", "500ms")]).await;
    let mut stream = TcpStream::connect(server.at.grpc.unwrap()).await.unwrap();
    // An initial window of 0.
    let settings = frame(4, 0, 0, b"\0\x04\0\0\0\0");
    // As many as fit into the initial window of the server.
    let calls: Vec<u8> = (0..10).flat_map(|call| full_batch(2 * call + 1)).collect();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    stream.write_all(&[preface, &settings, &calls].concat()).await.unwrap();
    end(&mut stream).await;
    let text = metrics(&server).await;
    assert!(text.contains(r#"{protocol="grpc",reason="reply"} 1"#), "{text}");
    let decisions = text.lines().filter(|line| line.starts_with("tollgate_decisions_total"));
    let decisions: u64 =
        decisions.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    // Once the connection ends, the batch that waits next may begin.
    assert!((1_000..=2_000).contains(&decisions), "{decisions} of 10,000 were decided");
    server.end().await;
}
