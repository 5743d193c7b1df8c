//! The part of HTTP/1.1 that REST interfaces use, for servers and clients: requests of known
//! length, one after another on a connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Far more than a client sends; a length beyond it is a mistake.
const BODY_MAX: usize = 64 << 20;
const LINE_MAX: u64 = 64 << 10;

/// A request of a client.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path and what follows it, as they were sent.
    pub(crate) target: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The answer, always JSON.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Request {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Reads a request; `None` at the end of the connection.
pub(crate) fn read(stream: &mut impl BufRead) -> io::Result<Option<Request>> {
    let Some(first) = line(stream)? else {
        return Ok(None);
    };
    let mut words = first.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1")) = (words.next(), words.next(), words.next())
    else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut headers = Vec::new();
    while let Some(header) = line(stream)?.filter(|header| !header.is_empty()) {
        let (name, value) = header.split_once(':').ok_or(io::ErrorKind::InvalidData)?;
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let (method, target) = (method.to_owned(), target.to_owned());
    let mut request = Request { method, target, headers, body: Vec::new() };
    let length = request.header("content-length").map_or(Ok(0), str::parse);
    let length = length.ok().filter(|length| *length <= BODY_MAX);
    request.body = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
    stream.read_exact(&mut request.body)?;
    Ok(Some(request))
}

/// Writes a response, in one piece.
pub(crate) fn write(
    stream: &mut impl Write,
    request: &Request,
    response: &Response,
) -> io::Result<()> {
    let reason = match response.status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        405 => "Method Not Allowed",
        _ => "Internal Server Error",
    };
    let (status, length) = (response.status, response.body.len());
    let mut text = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    if request.method != "HEAD" {
        text.push_str(&response.body);
    }
    stream.write_all(text.as_bytes())
}

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects; every read and write has the timeout too.
    pub(crate) fn to(addr: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a request, such as `POST /`; status and body of the response.
    pub(crate) fn send(
        &mut self,
        request: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<(u16, Vec<u8>)> {
        let length = body.len();
        let mut text =
            format!("{request} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {length}\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        self.stream.get_mut().write_all(&[text.as_bytes(), body].concat())?;
        self.response()
    }

    fn response(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
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
        if !is_chunked {
            return Ok((status, self.bytes(length)?));
        }
        let mut body = Vec::new();
        loop {
            let size = usize::from_str_radix(&self.line()?, 16);
            let mut chunk = self.bytes(size.map_err(|_| io::ErrorKind::InvalidData)?)?;
            self.line()?;
            if chunk.is_empty() {
                return Ok((status, body));
            }
            body.append(&mut chunk);
        }
    }

    fn bytes(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn line(&mut self) -> io::Result<String> {
        line(&mut self.stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// A line without its end; `None` at the end of the stream.
fn line(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    stream.by_ref().take(LINE_MAX).read_line(&mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let line = line.strip_suffix("\r\n").ok_or(io::ErrorKind::InvalidData)?;
    Ok(Some(line.to_owned()))
}
