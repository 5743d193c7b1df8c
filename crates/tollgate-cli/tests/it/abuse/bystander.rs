//! A client that makes ordinary requests, over HTTP and RESP in turn.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tokio::time::Instant;

use super::TOKEN;
use crate::support::Serving;

/// The keys that it charges in turn.
const KEYS: usize = 500;

pub(super) struct Bystander {
    http: TcpStream,
    resp: TcpStream,
}

/// How long each request took, in order of length.
pub(super) struct Latencies(Vec<Duration>);

impl Bystander {
    pub(super) fn connect(server: &Serving) -> Self {
        let http = TcpStream::connect(server.at("HTTP")).unwrap();
        let mut resp = TcpStream::connect(server.at("RESP")).unwrap();
        http.set_nodelay(true).unwrap();
        resp.set_nodelay(true).unwrap();
        assert_eq!(ask(&mut resp, &format!("AUTH {TOKEN}\r\n"), "\r\n"), "+OK\r\n");
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
            let key = format!("{}", number % KEYS);
            let body = format!(r#"{{"policy":"customers","key":"{key}"}}"#);
            let length = body.len();
            let http = format!(
                "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            );
            let began = Instant::now();
            let answer = ask(&mut self.http, &http, "}");
            all.push(began.elapsed());
            assert!(answer.contains(r#""allowed":true"#), "{answer}");
            for replayed in [0, 1] {
                let resp = format!("TG.ACQUIRE customers new-{number} 1 id-{number}\r\n");
                let began = Instant::now();
                let answer = ask(&mut self.resp, &resp, "\r\n");
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

/// Sends a request, and reads until the answer ends with `end`; small answers arrive at once.
fn ask(stream: &mut TcpStream, request: &str, end: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let (mut answer, mut part) = (String::new(), [0; 4_096]);
    while !answer.ends_with(end) || answer.ends_with("\r\n\r\n") {
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "the server has closed the connection after {answer:?}");
        answer.push_str(std::str::from_utf8(part.get(..read).unwrap()).unwrap());
    }
    answer
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
