//! What an open page costs a server: its CPU time per request under load, with a stream of events
//! open and closed, in rounds that take turns. For `docs/page.md`.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use serde_json::Value;
use tollgate_test_servers::Server;

use crate::run::{TaskResult, cargo, command, output, run, target};
use crate::served::Tollgate;

/// Pairs of rounds.
const PAIRS: usize = 7;
/// The length of a round.
const SECONDS: u64 = 8;
/// Requests per second under load, and without: what remains of the difference between open and
/// closed then is the stream itself, which a busy machine disturbs less.
const RATES: [u64; 2] = [4_000, 10];

/// Measures a binary, or a release build, and prints every round and the medians.
///
/// # Errors
/// When the server does not start, or a round fails.
pub(crate) fn page_cost(binary: Option<&str>) -> TaskResult {
    let binary = match binary {
        Some(binary) => PathBuf::from(binary),
        None => {
            run(cargo(&["build", "--release", "--locked", "-p", "tollgate-cli"]))?;
            target().join("release/tollgate")
        }
    };
    let tollgate = Tollgate { binary: binary.clone(), config: None };
    let server = Server::start(tollgate).map_err(|error| error.to_string())?;
    let program = binary.to_string_lossy();
    // The first requests make lines and buffers.
    round(&program, &server, RATES[0])?;
    for rate in RATES {
        let [closed, open] = medians(&program, &server, rate)?;
        let more = i128::from(open) - i128::from(closed);
        let hundredths = more * 10_000 / i128::from(closed.max(1));
        let sign = if more < 0 { "-" } else { "+" };
        let (whole, part) = (hundredths.abs() / 100, hundredths.abs() % 100);
        println!(
            "{rate} requests per second, medians of {PAIRS}: closed {closed} ns per request, open \
             {open} ns, {sign}{whole}.{part:02} %, {} us per second",
            more * i128::from(rate) / 1_000
        );
    }
    Ok(())
}

/// The CPU time per request without a stream and with one, the medians of pairs of rounds.
fn medians(program: &str, server: &Server, rate: u64) -> Result<[u64; 2], String> {
    let (mut closed, mut open) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        // Each kind is first as often as the other one, up to one.
        for is_open in [pair % 2 == 0, pair % 2 == 1] {
            let stream = is_open.then(|| Stream::open(server.addr())).transpose()?;
            let nanos = round(program, server, rate)?;
            let events = stream.map(Stream::close).transpose()?;
            let shown = events.map_or("closed".to_owned(), |events| format!("{events} events"));
            println!("{nanos} ns of CPU per request, {shown}");
            if is_open { &mut open } else { &mut closed }.push(nanos);
        }
    }
    Ok([median(closed), median(open)])
}

/// The CPU time of the server per request of a load, in nanoseconds.
fn round(program: &str, server: &Server, rate: u64) -> Result<u64, String> {
    let (url, rate) = (format!("http://{}", server.addr()), rate.to_string());
    let time = format!("{SECONDS}s");
    let load = ["bench", "--json", "--server", &url, "--rate", &rate, "--duration", &time];
    let before = cpu_nanos(server.pid())?;
    let report = output(command(
        program,
        &[&load[..], &["--connections", "16", "--keys", "1000"]].concat(),
    ))?;
    let threads = cpu_nanos(server.pid())?.into_iter();
    // A thread that has ended since is not counted: such ones read files, and not requests.
    let since = |(thread, nanos): (String, u64)| {
        nanos.saturating_sub(before.get(&thread).copied().unwrap_or_default())
    };
    let spent: u64 = threads.map(since).sum();
    let report: Value = serde_json::from_str(&report).map_err(|error| error.to_string())?;
    let requests = report.get("decided").and_then(Value::as_u64).filter(|count| *count > 0);
    Ok(spent / requests.ok_or("the load had no answers")?)
}

/// The time that each thread of a process has run.
fn cpu_nanos(pid: u32) -> Result<HashMap<String, u64>, String> {
    let folder = format!("/proc/{pid}/task");
    let failed = |error: std::io::Error| format!("{folder}: {error}");
    let mut threads = HashMap::new();
    for thread in fs::read_dir(&folder).map_err(failed)? {
        let path = thread.map_err(failed)?.path();
        // It may end in between.
        let Ok(text) = fs::read_to_string(path.join("schedstat")) else { continue };
        let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
        threads.insert(
            path.to_string_lossy().into_owned(),
            nanos.ok_or("schedstat has no time of a thread")?,
        );
    }
    Ok(threads)
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// A stream of events, as the page reads it.
#[derive(Debug)]
struct Stream {
    connection: TcpStream,
    reader: JoinHandle<usize>,
}

impl Stream {
    fn open(server: SocketAddr) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("the stream of events: {error}");
        let mut connection = TcpStream::connect(server).map_err(failed)?;
        let request = format!("GET /v1/events HTTP/1.1\r\nhost: {server}\r\n\r\n");
        connection.write_all(request.as_bytes()).map_err(failed)?;
        let mut reading = connection.try_clone().map_err(failed)?;
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            // It ends when the connection is shut down.
            let _ended = reading.read_to_end(&mut text);
            text.windows(14).filter(|window| window == b"event: status\n").count()
        });
        Ok(Self { connection, reader })
    }

    /// Closes it, and returns how many events there were.
    fn close(self) -> Result<usize, String> {
        self.connection.shutdown(Shutdown::Both).map_err(|error| error.to_string())?;
        let events = self.reader.join().map_err(|_| "the reader ended early")?;
        if events > 1 { Ok(events) } else { Err("the stream had no events".to_owned()) }
    }
}
