//! HTTP beside the API: probes and pipelined requests.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Running, slow};

#[tokio::test]
async fn probes_answer() {
    let server = Running::with(slow()).await;
    let text =
        async |path: &str| reqwest::get(server.url(path)).await.unwrap().text().await.unwrap();
    assert_eq!(text("/healthz").await, "ok\n");
    assert!(text("/readyz").await.contains("limits are per process"));
    server.end().await;
}

#[tokio::test]
async fn requests_that_are_pipelined_are_answered_in_order() {
    let server = Running::with(slow()).await;
    let mut stream = TcpStream::connect(server.at.http.unwrap()).await.unwrap();
    let body = r#"{"key":"k"}"#;
    let request = format!(
        "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n",
        body.len()
    );
    let last = format!("{request}Connection: close\r\n\r\n{body}");
    stream
        .write_all(format!("{request}\r\n{body}{request}\r\n{body}{last}").as_bytes())
        .await
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let left: Vec<_> =
        [9, 8, 7].iter().map(|left| text.find(&format!("\"remaining\":{left}"))).collect();
    assert!(left.iter().all(Option::is_some) && left.is_sorted(), "{text}");
    server.end().await;
}
