//! Whether the answers were right: a fast wrong answer is worth nothing.
//!
//! Before the load a fresh key under a limit of [`FEW`] units is asked for more than these, over
//! the protocol of the cell: exactly as many must be admitted. After the load the units that its
//! keys have left are added up: what was spent must be what the generator counted, except for
//! requests that were under way when it ended.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;
use tollgate_test_servers::resp::{Client, Reply};

use super::grpc;
use super::kinds::FEW;
use super::load::Counted;
use super::wire::is_allowed;
use crate::Result;

/// Requests of the key that is denied.
const ASKED: u64 = 3 * FEW;
/// Commands that are sent before their replies are read.
const BATCH: usize = 500;
/// How long a reply may take.
const REPLY: Duration = Duration::from_secs(10);

/// The key that is denied, as a server is asked for it.
#[derive(Clone, Debug)]
pub(super) enum Few {
    /// The path and the body of a request.
    Http { target: String, body: String },
    /// The path of a method and its message.
    Grpc { path: &'static str, message: Bytes },
    /// The words of a command, whose reply begins with 1 for an allowed request.
    Resp(Vec<String>),
}

impl Few {
    /// Asks for it.
    ///
    /// # Errors
    /// When more or less is admitted than the limit grants.
    pub(super) fn check(&self, addr: SocketAddr, runtime: &Runtime) -> Result<()> {
        let allowed = match self {
            Self::Http { target, body } => http(addr, target, body),
            Self::Grpc { path, message } => runtime.block_on(async {
                let mut client = grpc::Client::connect(addr).await?;
                let mut allowed = 0;
                for _ in 0..ASKED {
                    let reply = client.call(path, message.clone()).await?;
                    allowed += u64::from(is_allowed(&reply));
                }
                Ok(allowed)
            }),
            Self::Resp(words) => resp(addr, words),
        }?;
        match allowed == FEW {
            true => Ok(()),
            false => Err(format!("{allowed} of {ASKED} requests were allowed, not {FEW}")),
        }
    }
}

fn resp(addr: SocketAddr, words: &[String]) -> Result<u64> {
    let mut client = connect(addr)?;
    let mut allowed = 0;
    for _ in 0..ASKED {
        let reply = client.call(words).map_err(|error| error.to_string())?;
        let verdict = reply.elements().first().and_then(Reply::integer);
        allowed += u64::try_from(verdict.ok_or_else(|| format!("{reply:?}"))?).unwrap_or(0);
    }
    Ok(allowed)
}

fn connect(addr: SocketAddr) -> Result<Client> {
    let client = Client::connect(addr).map_err(|error| error.to_string())?;
    client.set_timeout(REPLY).map_err(|error| error.to_string())?;
    Ok(client)
}

fn http(addr: SocketAddr, target: &str, body: &str) -> Result<u64> {
    let send = || -> std::io::Result<u64> {
        let stream = TcpStream::connect(addr)?;
        stream.set_read_timeout(Some(REPLY))?;
        let mut stream = BufReader::new(stream);
        let mut allowed = 0;
        for _ in 0..ASKED {
            let request = post(target, body);
            stream.get_mut().write_all(request.as_bytes())?;
            let (status, reply) = read(&mut stream)?;
            allowed += u64::from(status == 200 && reply.contains("\"allowed\":true"));
        }
        Ok(allowed)
    };
    send().map_err(|error| format!("POST {target}: {error}"))
}

/// A request of HTTP/1.1.
pub(super) fn post(target: &str, body: &str) -> String {
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<(u16, String)> {
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let lower = line.trim().to_ascii_lowercase();
        if let Some(rest) = lower.strip_prefix("http/1.1 ") {
            status = rest.get(..3).and_then(|code| code.parse().ok()).unwrap_or(0);
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if lower.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// Adds up what keys have spent: `command` asks for one of them, and `spent` reads the reply.
pub(super) fn spent(
    addr: SocketAddr,
    keys: u64,
    command: impl Fn(u64) -> Vec<String>,
    spent: impl Fn(&Reply) -> Option<u64>,
) -> Result<u64> {
    let mut client = connect(addr)?;
    let (mut total, mut next) = (0, 0);
    while next < keys {
        let end = keys.min(next + BATCH as u64);
        for key in next..end {
            client.send(&command(key)).map_err(|error| error.to_string())?;
        }
        for _ in next..end {
            let reply = client.read().map_err(|error| error.to_string())?;
            total += spent(&reply).ok_or_else(|| format!("an unexpected reply: {reply:?}"))?;
        }
        next = end;
    }
    Ok(total)
}

/// Compares what was spent with what a generator counted.
///
/// # Errors
/// When they differ by more than the requests that were under way at the end.
pub(super) fn compare(spent: u64, counted: &Counted) -> Result<()> {
    let most = counted.requests + counted.under_way;
    if counted.failed > 0 {
        return Err(format!("{} of {} requests failed", counted.failed, counted.requests));
    }
    match (counted.requests..=most).contains(&spent) {
        true => Ok(()),
        false => Err(format!(
            "{spent} units were spent for {} requests, with at most {} under way",
            counted.requests, counted.under_way
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_under_way_may_be_spent_beyond_what_was_counted() {
        let counted = Counted { requests: 100, seconds: 1.0, failed: 0, under_way: 5 };
        assert!(compare(100, &counted).is_ok() && compare(105, &counted).is_ok());
        assert!(compare(99, &counted).is_err() && compare(106, &counted).is_err());
        assert!(compare(100, &Counted { failed: 1, ..counted }).is_err());
    }
}
