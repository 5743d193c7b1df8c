//! The protocol of DynamoDB over one connection: JSON by POST, with the operation in a header.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::percent::encoded;

/// The prefix of the name of an operation.
pub(super) const TARGET: &str = "DynamoDB_20120810.";
/// How long an answer may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Emulators require a signature and do not check it.
const SIGNATURE: &str = "AWS4-HMAC-SHA256 \
                         Credential=test/20260101/us-east-1/dynamodb/aws4_request, \
                         SignedHeaders=host, Signature=none";

/// The address of a table at an endpoint.
pub(super) fn url(endpoint: SocketAddr, table: &str) -> String {
    let endpoint = encoded(&format!("http://{endpoint}"));
    format!("dynamodb://{table}?region=us-east-1&endpoint={endpoint}")
}

/// A connection to a server.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(super) fn to(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Calls an operation, and returns its answer.
    pub(super) fn call(&mut self, operation: &str, body: &Value) -> Result<Value> {
        let target = format!("{TARGET}{operation}");
        let headers = [
            ("x-amz-target", target.as_str()),
            ("content-type", "application/x-amz-json-1.0"),
            ("authorization", SIGNATURE),
            ("x-amz-date", "20260101T000000Z"),
        ];
        let (status, answer) = self.send(&headers, body.to_string().as_bytes())?;
        if status != 200 {
            let body = String::from_utf8_lossy(&answer);
            return Err(Error::new(format!("{operation}: {status} {body}")));
        }
        serde_json::from_slice(&answer).map_err(|error| Error::new(error.to_string()))
    }

    /// Sends a request as it is; status and body of the answer.
    pub(super) fn send(
        &mut self,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<(u16, Vec<u8>)> {
        let mut request =
            format!("POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request)?;
        self.answer()
    }

    fn answer(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status: u16 = status.ok_or(io::ErrorKind::InvalidData)?;
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let header = self.line()?.to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
            }
            is_chunked |= header.starts_with("transfer-encoding:") && header.ends_with("chunked");
        }
        let mut body = Vec::new();
        if !is_chunked {
            self.append(length, &mut body)?;
            return Ok((status, body));
        }
        loop {
            let size = usize::from_str_radix(&self.line()?, 16);
            let size = size.map_err(|_| io::ErrorKind::InvalidData)?;
            self.append(size, &mut body)?;
            self.line()?;
            if size == 0 {
                return Ok((status, body));
            }
        }
    }

    fn append(&mut self, size: usize, body: &mut Vec<u8>) -> io::Result<()> {
        let mut part = vec![0; size];
        self.stream.read_exact(&mut part)?;
        body.append(&mut part);
        Ok(())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
