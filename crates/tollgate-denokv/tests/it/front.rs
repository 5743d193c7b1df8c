//! A front before the real server, with tokens of its own: what a hosted database does with them.
//!
//! It hands out a new token in every metadata exchange, passes requests on that carry one which is
//! not revoked, and refuses the others. Exchanges can be held up. The real server's token never
//! changes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use tollgate_core::Micros;
use tollgate_test_servers::wait::until_ok;
use tollgate_test_servers::{DenoKv as Server, Error};

use crate::support::TEST_TIMEOUT;

/// When all tokens of a front end.
pub(crate) const TOKENS_END: Micros = 4_102_444_800 * 1_000_000;

const REFUSAL: &str = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";

/// The front. Its threads end with the test program.
pub(crate) struct Front {
    addr: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// How many were begun.
    exchanges: AtomicU64,
    /// Tokens up to this number are refused.
    revoked: AtomicU64,
    /// The number of the token that was used last.
    used: AtomicU64,
    is_held: Mutex<bool>,
    released: Condvar,
}

struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Front {
    pub(crate) fn before(server: &'static Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&shared);
                thread::spawn(move || drop(serve(stream.unwrap(), server, &state)));
            }
        });
        Self { addr, state }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        self.url_with("front-token", path)
    }

    pub(crate) fn url_with(&self, token: &str, path: &str) -> String {
        format!("denokv+http://{token}@{}{path}", self.addr)
    }

    /// Refuses the tokens that were handed out so far.
    pub(crate) fn revoke(&self) {
        self.state.revoked.store(self.exchanges(), SeqCst);
    }

    /// From now on exchanges are begun and not ended.
    pub(crate) fn hold(&self) {
        *self.state.is_held.lock().unwrap() = true;
    }

    /// Ends the exchanges that were held.
    pub(crate) fn release(&self) {
        *self.state.is_held.lock().unwrap() = false;
        self.state.released.notify_all();
    }

    /// How many exchanges were begun.
    pub(crate) fn exchanges(&self) -> u64 {
        self.state.exchanges.load(SeqCst)
    }

    /// The number of the token that was used last.
    pub(crate) fn used(&self) -> u64 {
        self.state.used.load(SeqCst)
    }

    /// Waits until this many exchanges were begun.
    pub(crate) fn wait_for_exchange(&self, number: u64) {
        let begun = || match self.exchanges() {
            begun if begun >= number => Ok(()),
            begun => Err(Error::new(format!("{begun} exchanges were begun"))),
        };
        until_ok(TEST_TIMEOUT, begun).unwrap();
    }
}

fn serve(client: TcpStream, server: &Server, state: &State) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut client = client;
    while let Some(request) = read(&mut reader)? {
        let reply = if request.line.starts_with("POST /moved ") {
            "HTTP/1.1 307 Moved\r\nlocation: /\r\ncontent-length: 0\r\n\r\n".into()
        } else if request.line.starts_with("POST / ") {
            exchange(&request, server, state)?
        } else {
            data(&request, server, state)?
        };
        client.write_all(&reply)?;
    }
    Ok(())
}

fn exchange(request: &Request, server: &Server, state: &State) -> std::io::Result<Vec<u8>> {
    let number = state.exchanges.fetch_add(1, SeqCst) + 1;
    let held = state.is_held.lock().unwrap();
    drop(state.released.wait_while(held, |is_held| *is_held).unwrap());
    if header(&request.headers, "authorization") != Some("Bearer front-token") {
        return Ok(REFUSAL.into());
    }
    let reply = String::from_utf8(pass_on(request, server)?).unwrap();
    let (_, body) = reply.split_once("\r\n\r\n").unwrap();
    let body = ending(&body.replace(server.token(), &format!("token-{number}")));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
    Ok(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into())
}

fn data(request: &Request, server: &Server, state: &State) -> std::io::Result<Vec<u8>> {
    let bearer = header(&request.headers, "authorization").unwrap_or_default();
    let number = bearer.strip_prefix("Bearer token-").and_then(|number| number.parse().ok());
    match number {
        Some(number) if number > state.revoked.load(SeqCst) => {
            state.used.store(number, SeqCst);
            pass_on(request, server)
        }
        _ => Ok(REFUSAL.into()),
    }
}

/// Metadata whose token ends at [`TOKENS_END`].
fn ending(metadata: &str) -> String {
    let mut metadata: serde_json::Map<_, _> = serde_json::from_str(metadata).unwrap();
    metadata.insert("expiresAt".into(), "2100-01-01T00:00:00Z".into());
    serde_json::to_string(&metadata).unwrap()
}

/// Asks the real server with its own token; the whole reply.
fn pass_on(request: &Request, server: &Server) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server.addr())?;
    let mut head = format!("{}\r\nauthorization: Bearer {}\r\n", request.line, server.token());
    for (name, value) in request.headers.iter().filter(|(name, _)| name != "authorization") {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes())?;
    stream.write_all(&request.body)?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply)?;
    // The connection to the client stays open, and must say nothing else.
    let text = String::from_utf8_lossy(&reply).into_owned();
    let head_end = text.find("\r\n\r\n").unwrap();
    let body = reply.split_off(reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4);
    let head = text.get(..head_end).unwrap().replace("connection: close\r\n", "");
    let head = head.replace("\r\nconnection: close", "");
    Ok([head.as_bytes(), b"\r\n\r\n", &body].concat())
}

fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        lines.push(line.to_owned());
    }
    let (first, headers) = lines.split_first().unwrap();
    let headers: Vec<(String, String)> = headers
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = header(&headers, "content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Request { line: first.clone(), headers, body }))
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}
