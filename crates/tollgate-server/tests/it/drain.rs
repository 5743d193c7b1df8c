//! The end: what was accepted is answered.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Resp, Running, slow};

#[tokio::test]
async fn a_request_that_has_begun_is_answered_at_the_end() {
    let server = Running::with(slow()).await;
    let at = server.at;
    let mut resp = server.resp().await;
    assert_eq!(resp.ask(&["PING"]).await, "+PONG");
    let mut http = TcpStream::connect(at.http.unwrap()).await.unwrap();
    let head = "POST /v1/acquire HTTP/1.1\r\nHost: t\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n";
    http.write_all(head.as_bytes()).await.unwrap();
    // The server has read the head: it asks for the body.
    let mut go_on = [0; 25];
    http.read_exact(&mut go_on).await.unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100 Continue"));
    resp.send(Resp::command(&["TG.ACQUIRE", "default", "k"]).as_bytes()).await;
    let ending = server.tell_to_end();
    http.write_all(br#"{"key":"k"}"#).await.unwrap();
    let mut reply = String::new();
    http.read_to_string(&mut reply).await.unwrap();
    assert!(reply.contains("\"allowed\":true"), "{reply}");
    assert!(resp.rest().await.starts_with("*5\r\n:1\r\n"));
    tokio::time::timeout(Duration::from_secs(60), ending).await.unwrap().unwrap();
    assert!(TcpStream::connect(at.http.unwrap()).await.is_err());
}
