//! Shutdown: requests that were accepted are answered.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_stream::StreamExt;
use tollgate_server::Server;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;

use crate::support::{PREFACE, Resp, Running, config, frame, head, slow};

#[tokio::test]
async fn a_request_under_way_is_answered_at_shutdown() {
    let server = Running::with(slow()).await;
    let at = server.at;
    let mut resp = server.resp().await;
    assert_eq!(resp.call(&["PING"]).await, "+PONG");
    let mut http = TcpStream::connect(at.http.unwrap()).await.unwrap();
    let head = "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 11\r\n\
                Expect: 100-continue\r\n\r\n";
    http.write_all(head.as_bytes()).await.unwrap();
    // The server has read the headers, and waits for the body.
    let mut interim = [0; 25];
    http.read_exact(&mut interim).await.unwrap();
    assert!(interim.starts_with(b"HTTP/1.1 100 Continue"));
    resp.send(Resp::command(&["TG.ACQUIRE", "default", "k"]).as_bytes()).await;
    let ending = server.shut_down();
    http.write_all(br#"{"key":"k"}"#).await.unwrap();
    let mut reply = String::new();
    http.read_to_string(&mut reply).await.unwrap();
    assert!(reply.contains("\"allowed\":true"), "{reply}");
    assert!(resp.rest().await.starts_with("*5\r\n:1\r\n"));
    tokio::time::timeout(Duration::from_secs(60), ending).await.unwrap().unwrap();
    assert!(TcpStream::connect(at.http.unwrap()).await.is_err());
}

#[tokio::test]
async fn health_watches_report_the_shutdown_and_do_not_delay_it() {
    let server = Running::with(slow()).await;
    let mut health = HealthClient::new(server.channel().await);
    let mut watches = Vec::new();
    for service in ["", "tollgate.v1.RateLimiter", "ratelimit.v1.RateLimiter"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let mut watch = health.watch(request).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        watches.push(watch);
    }
    let ending = server.shut_down();
    let reported = async {
        for mut watch in watches {
            assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
            assert_eq!(watch.message().await.unwrap(), None);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reported).await.expect("the status");
    tokio::time::timeout(Duration::from_secs(60), ending).await.unwrap().unwrap();
}

/// A stream of requests that never ends is answered so far, and does not delay the shutdown.
#[tokio::test]
async fn a_reflection_stream_does_not_delay_the_shutdown() {
    let mut config = config();
    // The test must not pass because the drain time ends.
    config.drain = Duration::from_secs(3_600);
    let server = Running::of(Server::bind(config).await.unwrap());
    let mut client = ServerReflectionClient::new(server.channel().await);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let open = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut responses = client.server_reflection_info(open).await.unwrap().into_inner();
    assert!(responses.message().await.unwrap().is_some());
    let ending = server.shut_down();
    tokio::time::timeout(Duration::from_secs(60), ending).await.expect("it ends").unwrap();
    assert!(responses.message().await.unwrap().is_none());
}

/// Clients of gRPC and RESP that have connected and asked before the server has accepted them, and
/// one of each that asks nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_wait_at_shutdown_are_answered_on_every_protocol() {
    let server = Running::with(slow()).await;
    let (grpc, resp) = (server.at.grpc.unwrap(), server.at.resp.unwrap());
    // `key` has the number 2.
    let call = frame(1, 4, 1, &head(b"/tollgate.v1.RateLimiter/Peek"));
    let call = [PREFACE, &call, &frame(0, 1, 1, b"\0\0\0\0\x03\x12\x01k")].concat();
    let command = Resp::command(&["TG.ACQUIRE", "default", "k"]);
    let mut clients = Vec::new();
    for number in 0..50 {
        let mut called = TcpStream::connect(grpc).await.unwrap();
        let mut commanded = TcpStream::connect(resp).await.unwrap();
        if number > 0 {
            called.write_all(&call).await.unwrap();
            commanded.write_all(command.as_bytes()).await.unwrap();
        }
        clients.push((called, commanded));
    }
    let ending = server.shut_down();
    for (number, (mut called, mut commanded)) in clients.into_iter().enumerate() {
        let (mut frames, mut reply) = (Vec::new(), Vec::new());
        called.read_to_end(&mut frames).await.unwrap();
        commanded.read_to_end(&mut reply).await.unwrap();
        let kinds = kinds(&frames);
        // A client that has not begun HTTP/2 is disconnected without a frame that says so.
        assert_eq!(kinds.contains(&(7, 0)), number > 0, "the end is announced: {kinds:?}");
        assert_eq!(kinds.contains(&(0, 1)), number > 0, "a message is answered: {kinds:?}");
        assert_eq!(reply.starts_with(b"*5\r\n"), number > 0, "{number}");
    }
    tokio::time::timeout(Duration::from_secs(60), ending).await.unwrap().unwrap();
    for address in [grpc, resp] {
        assert!(TcpStream::connect(address).await.is_err());
    }
}

/// The kind and the stream of each frame of HTTP/2.
fn kinds(mut frames: &[u8]) -> Vec<(u8, u8)> {
    let mut kinds = Vec::new();
    while let [high, middle, low, kind, _, _, _, _, stream, rest @ ..] = frames {
        kinds.push((*kind, *stream));
        let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        frames = &rest[length..];
    }
    kinds
}
