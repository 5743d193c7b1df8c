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

use crate::support::{Resp, Running, config, slow};

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
