//! A connection to the HTTP interface of a server: one request at a time, answers of known length.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// A kept connection.
#[derive(Debug)]
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) async fn to(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends JSON; the JSON of the answer, whatever its status. `sent` becomes the time at which
    /// all of it was written.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        body: &Value,
        sent: &mut Instant,
    ) -> io::Result<Value> {
        let body = body.to_string();
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes()).await?;
        *sent = Instant::now();
        let mut length = None;
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse::<usize>().ok();
            }
        }
        let mut answer = vec![0; length.ok_or(ErrorKind::InvalidData)?];
        self.0.read_exact(&mut answer).await?;
        Ok(serde_json::from_slice(&answer)?)
    }
}
