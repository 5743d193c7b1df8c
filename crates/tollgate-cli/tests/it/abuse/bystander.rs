//! A client that makes ordinary requests, over HTTP and RESP in turn.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tokio::time::Instant;

use super::TOKEN;
use crate::support::Serving;

/// The keys that it charges in turn.
const KEYS: usize = 500;
/// How often it connects before its first request is answered.
const ATTEMPTS: usize = 100;

pub(super) struct Bystander {
    http: TcpStream,
    resp: TcpStream,
}

/// How long each request took, in order of length.
pub(super) struct Latencies(Vec<Duration>);

impl Bystander {
    pub(super) fn connect(server: &Serving) -> Self {
        let http = answered(server.at("HTTP"), &acquire("0"), (r#""allowed":true"#, "}"));
        let resp = answered(server.at("RESP"), &format!("AUTH {TOKEN}\r\n"), ("+OK", "\r\n"));
        Self { http, resp }
    }

    /// Makes requests for some time.
    pub(super) fn run_for(self, time: Duration) -> Latencies {
        let start = Instant::now();
        self.run_while(|| start.elapsed() < time)
    }

    /// Makes requests one after another: for keys that were charged before and for new ones, and
    /// each with a request id twice. Every one must be allowed.
    pub(super) fn run_while(mut self, goes_on: impl Fn() -> bool) -> Latencies {
        let (mut all, mut numbers) = (Vec::new(), 0_usize..);
        while goes_on() {
            let number = numbers.next().unwrap();
            let http = acquire(&format!("{}", number % KEYS));
            let began = Instant::now();
            let answer = ask(&mut self.http, &http, "}").unwrap();
            all.push(began.elapsed());
            assert!(answer.contains(r#""allowed":true"#), "{answer}");
            for replayed in [0, 1] {
                let resp = format!("TG.ACQUIRE customers new-{number} 1 id-{number}\r\n");
                let began = Instant::now();
                let answer = ask(&mut self.resp, &resp, "\r\n").unwrap();
                all.push(began.elapsed());
                // The limit, what is left, and two numbers follow; the receipt is last.
                assert!(answer.starts_with("*7\r\n:1\r\n:1000000\r\n:999999\r\n"), "{answer}");
                let is_replay = format!(":{replayed}");
                assert_eq!(answer.lines().nth(6), Some(&*is_replay), "{answer}");
            }
        }
        Latencies::of(all)
    }
}

/// A connection whose first request was answered. Before that, a full listener may close it to make
/// room: then the client connects again.
fn answered(address: &str, request: &str, (expected, end): (&str, &str)) -> TcpStream {
    let mut connections = (0..ATTEMPTS).map(|_| TcpStream::connect(address).unwrap());
    let answered = connections.find_map(|mut stream| {
        stream.set_nodelay(true).unwrap();
        let answer = ask(&mut stream, request, end);
        answer.is_ok_and(|answer| answer.contains(expected)).then_some(stream)
    });
    answered.unwrap()
}

fn acquire(key: &str) -> String {
    let body = format!(r#"{{"policy":"customers","key":"{key}"}}"#);
    let length = body.len();
    format!(
        "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Sends a request, and reads until the answer ends with `end`; small answers arrive at once.
fn ask(stream: &mut TcpStream, request: &str, end: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let (mut answer, mut part) = (String::new(), [0; 4_096]);
    while !answer.ends_with(end) || answer.ends_with("\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => answer.push_str(std::str::from_utf8(part.get(..read).unwrap()).unwrap()),
        }
    }
    Ok(answer)
}

impl Latencies {
    pub(super) fn of(mut all: Vec<Duration>) -> Self {
        all.sort();
        Self(all)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn percentile(&self, percent: usize) -> Duration {
        self.0.get(self.0.len() * percent / 100).copied().unwrap_or_default()
    }
}
