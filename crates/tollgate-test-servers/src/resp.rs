//! A small blocking client of Redis: one connection, one command at a time.
//!
//! For probes, and for tests that inspect a server without the store under test. It shares no code
//! with a store. Every read and write has a timeout.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::error::{Error, Result};

/// The default timeout of a read or write.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// A status such as `OK`.
    Status(String),
    /// An error, with its code in front.
    Error(String),
    /// A whole number; a boolean is 0 or 1.
    Integer(i64),
    /// A string of bytes; other numbers as text.
    Bulk(Vec<u8>),
    /// Several replies; a map is a list of keys and values.
    Array(Vec<Self>),
    /// Nothing.
    Nil,
}

impl Reply {
    /// The reply, unless it is an error.
    ///
    /// # Errors
    /// The server's error.
    pub fn ok(self) -> Result<Self> {
        match self {
            Self::Error(message) => Err(Error::new(message)),
            fine => Ok(fine),
        }
    }

    /// The text of a status, an error or a string; `None` for anything else.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Status(text) | Self::Error(text) => Some(text),
            Self::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
            Self::Integer(_) | Self::Array(_) | Self::Nil => None,
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub const fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The elements, if there are several.
    #[must_use]
    pub fn elements(&self) -> &[Self] {
        match self {
            Self::Array(elements) => elements,
            _ => &[],
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<Stream>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When no server listens there.
    pub fn connect(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
        stream.set_nodelay(true)?;
        Self::over(Stream::Tcp(stream))
    }

    /// Connects to a socket in the file system.
    ///
    /// # Errors
    /// When no server listens there.
    pub fn connect_unix(path: &Path) -> io::Result<Self> {
        Self::over(Stream::Unix(UnixStream::connect(path)?))
    }

    fn over(stream: Stream) -> io::Result<Self> {
        let client = Self { stream: BufReader::new(stream) };
        client.set_timeout(TIMEOUT)?;
        Ok(client)
    }

    /// Sets the timeout of reads and writes, 5 seconds by default.
    ///
    /// # Errors
    /// When it is zero.
    pub fn set_timeout(&self, limit: Duration) -> io::Result<()> {
        match self.stream.get_ref() {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(Some(limit))?;
                stream.set_write_timeout(Some(limit))
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(Some(limit))?;
                stream.set_write_timeout(Some(limit))
            }
        }
    }

    /// Sends a command and reads its reply. An error from the server is a reply like any other.
    ///
    /// # Errors
    /// `WouldBlock` or `TimedOut` when no reply arrives in time, or an error of the connection,
    /// which is unusable then.
    pub fn call(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<Reply> {
        self.send(words)?;
        self.read()
    }

    /// Sends a command whose reply is to be read later.
    ///
    /// # Errors
    /// An error of the connection.
    pub fn send(&mut self, words: &[impl AsRef<[u8]>]) -> io::Result<()> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            command.extend_from_slice(word);
            command.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&command)
    }

    /// Reads one reply, of version 2 or 3 of the protocol.
    ///
    /// # Errors
    /// As [`Self::call`], and `InvalidData` when it is no reply.
    pub fn read(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| invalid(&line))?;
        Ok(match kind {
            "+" => Reply::Status(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(number(rest)?),
            "#" => Reply::Integer(i64::from(rest == "t")),
            "_" => Reply::Nil,
            "," | "(" => Reply::Bulk(rest.as_bytes().to_vec()),
            "$" | "=" => self.bytes(rest)?.map_or(Reply::Nil, Reply::Bulk),
            "!" => {
                let bytes = self.bytes(rest)?.unwrap_or_default();
                Reply::Error(String::from_utf8_lossy(&bytes).into_owned())
            }
            "*" | "~" | ">" => self.array(number(rest)?)?,
            "%" => self.array(number(rest)?.saturating_mul(2))?,
            _ => return Err(invalid(&line)),
        })
    }

    fn array(&mut self, count: i64) -> io::Result<Reply> {
        if count < 0 {
            return Ok(Reply::Nil);
        }
        (0..count).map(|_| self.read()).collect::<io::Result<_>>().map(Reply::Array)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn bytes(&mut self, length: &str) -> io::Result<Option<Vec<u8>>> {
        let Ok(length) = usize::try_from(number(length)?) else {
            return Ok(None);
        };
        let mut bytes = vec![0; length.saturating_add(2)];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Some(bytes))
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| invalid(text))
}

fn invalid(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a reply: {line:?}"))
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}
