//! Pages of other sites: what a browser sends for them changes nothing where no token is needed.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_server::{Config, Server};
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};

use crate::support::{Running, slow};

/// Sends a request with a head of its own; the status.
pub(crate) async fn status_of(server: &Running, head: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
    let length = body.len();
    let request = format!("{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    reply.split(' ').nth(1).expect(&reply).parse().unwrap()
}

fn body(path: &str) -> &'static str {
    if path == "/v1/acquire_many" { r#"{"requests":[]}"# } else { r#"{"key":"k"}"# }
}

#[tokio::test]
async fn a_loopback_listener_refuses_foreign_hosts() {
    let server = Running::with(slow()).await;
    let port = server.at.http.unwrap().port();
    let status = async |host: &str| {
        let head = format!("POST /v1/acquire HTTP/1.1\r\nHost: {host}");
        status_of(&server, &head, body("/v1/acquire")).await
    };
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "[::2]"] {
        assert_eq!(status(host).await, 403, "{host}");
    }
    for host in ["localhost", "LocalHost:1", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:80"] {
        assert_eq!(status(host).await, 200, "{host}");
    }
    assert_eq!(status(&format!("localhost:{port}")).await, 200);
    let target = "POST http://evil.example/v1/acquire HTTP/1.1\r\nHost: localhost";
    assert_eq!(status_of(&server, target, body("/v1/acquire")).await, 403);
    server.end().await;
}

#[tokio::test]
async fn grpc_refuses_requests_of_foreign_pages() {
    let server = Running::with(slow()).await;
    let mut client = server.grpc().await;
    for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let reset =
            tollgate_proto::tollgate_v1::ResetRequest { key: "k".into(), ..Default::default() };
        let mut request = Request::new(reset);
        request.metadata_mut().insert(name, MetadataValue::from_static(value));
        assert_eq!(client.reset(request).await.unwrap_err().code(), Code::PermissionDenied);
    }
    server.end().await;
}

#[tokio::test]
async fn resp_drops_connections_that_speak_http() {
    let server = Running::with(slow()).await;
    let take = "TG.ACQUIRE default k\r\n";
    let requests = [
        format!("POST / HTTP/1.1\r\nX: y\r\n\r\n{take}"),
        format!("post / HTTP/1.1\r\n{take}"),
        format!("HOST: localhost\r\n{take}"),
    ];
    for request in requests {
        let mut client = server.resp().await;
        client.send(request.as_bytes()).await;
        assert_eq!(client.rest_bytes().await, b"", "{request}");
    }
    let mut client = server.resp().await;
    client.send(format!("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n{take}").as_bytes()).await;
    let reply = client.rest_bytes().await;
    assert!(reply.starts_with(b"-ERR unknown command 'GET'"));
    assert!(!reply.contains(&b'*'), "no command after it was answered");
    assert_eq!(server.resp().await.five(&["TG.ACQUIRE", "default", "k"]).await[2], 9);
    server.end().await;
}

#[tokio::test]
async fn a_setting_names_further_hosts() {
    let variable = |name: &str| match name {
        "TOLLGATE_HOSTS" => Some("tollgate, limits.test".to_owned()),
        "TOLLGATE_HTTP" | "TOLLGATE_GRPC" | "TOLLGATE_RESP" => Some("127.0.0.1:0".to_owned()),
        _ => None,
    };
    let config = Config::of_text(&[], variable, None).unwrap();
    let server = Running::of(Server::bind(config).await.unwrap());
    for (host, expected) in [("tollgate:8080", 200), ("LIMITS.test", 200), ("test", 403)] {
        let head = format!("POST /v1/acquire HTTP/1.1\r\nHost: {host}");
        assert_eq!(status_of(&server, &head, body("/v1/acquire")).await, expected, "{host}");
    }
    server.end().await;
}

/// A page cannot have a token, and a client with one may be reached by any name.
#[tokio::test]
async fn where_a_token_is_needed_it_decides_alone() {
    let variable = |name: &str| match name {
        "TOLLGATE_TOKENS" => Some("token-of-a-caller".to_owned()),
        "TOLLGATE_HTTP" | "TOLLGATE_GRPC" | "TOLLGATE_RESP" => Some("127.0.0.1:0".to_owned()),
        _ => None,
    };
    let config = Config::of_text(&[], variable, None).unwrap();
    let server = Running::of(Server::bind(config).await.unwrap());
    let head = "POST /v1/acquire HTTP/1.1\r\nHost: limits.test\r\nOrigin: https://app.test";
    assert_eq!(status_of(&server, head, body("/v1/acquire")).await, 401);
    let head = format!("{head}\r\nAuthorization: Bearer token-of-a-caller");
    assert_eq!(status_of(&server, &head, body("/v1/acquire")).await, 200);
    server.end().await;
}
