//! An open loop: requests at a fixed rate, each due at its instant, whatever became of those
//! before. A latency counts from that instant. It schedules as `tollgate bench` does, and speaks to
//! every server of the comparison.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::audit::post;
use super::bed::{KEYS, key};
use super::grpc::Client;
use super::kinds::{BURST, Protocol};
use super::target::{BENCH, Target};
use super::wire::is_allowed;
use crate::Result;

/// Connections, each with one request under way.
const CONNECTIONS: usize = 32;

/// What is asked of whom.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) target: Target,
    pub(super) protocol: Protocol,
    pub(super) addr: SocketAddr,
    /// The name of the script, for Redis.
    pub(super) sha: String,
    pub(super) prefix: String,
    /// Requests per second, and for how long.
    pub(super) rate: u64,
    pub(super) time: Duration,
}

/// When requests are due.
#[derive(Debug)]
struct Schedule {
    start: Instant,
    rate: u64,
    total: u64,
    next: AtomicU64,
    due: Semaphore,
}

impl Schedule {
    fn instant_of(&self, number: u64) -> Instant {
        let nanos = u128::from(number) * 1_000_000_000 / u128::from(self.rate);
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Releases requests when they are due. A parked thread wakes sooner than a timer of tokio.
    fn release(&self) {
        let mut released = 0;
        while released < self.total {
            let passed = self.start.elapsed().as_nanos() * u128::from(self.rate) / 1_000_000_000;
            let due = u64::try_from(passed).unwrap_or(u64::MAX).saturating_add(1).min(self.total);
            self.due.add_permits(usize::try_from(due.saturating_sub(released)).unwrap_or(1));
            released = due.max(released);
            let next = self.instant_of(released);
            thread::park_timeout(next.saturating_duration_since(Instant::now()));
        }
        self.due.add_permits(CONNECTIONS);
    }
}

/// Runs it: the latencies of all requests in nanoseconds, sorted.
///
/// # Errors
/// When a request is not allowed, or not answered.
pub(super) async fn run(load: &Load) -> Result<Vec<u64>> {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        open.push(Connection::open(load).await?);
    }
    let total = u128::from(load.rate) * load.time.as_millis() / 1_000;
    let schedule = Arc::new(Schedule {
        start: Instant::now(),
        rate: load.rate.max(1),
        total: u64::try_from(total).unwrap_or(u64::MAX).max(1),
        next: AtomicU64::new(0),
        due: Semaphore::new(0),
    });
    let releasing = Arc::clone(&schedule);
    let releasing = thread::spawn(move || releasing.release());
    let tasks = open
        .into_iter()
        .map(|connection| tokio::spawn(work(connection, load.clone(), Arc::clone(&schedule))));
    let mut all = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        all.extend(task.await.map_err(|error| error.to_string())??);
    }
    releasing.join().map_err(|_| "the schedule panicked")?;
    all.sort_unstable();
    Ok(all)
}

async fn work(mut connection: Connection, load: Load, schedule: Arc<Schedule>) -> Result<Vec<u64>> {
    let mut latencies = Vec::new();
    loop {
        schedule.due.acquire().await.map_err(|error| error.to_string())?.forget();
        let number = schedule.next.fetch_add(1, Ordering::Relaxed);
        if number >= schedule.total {
            return Ok(latencies);
        }
        let due = schedule.instant_of(number);
        if !connection.ask(&load, &key(&load.prefix, number % KEYS)).await? {
            return Err("a request was denied".into());
        }
        latencies.push(u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
}

enum Connection {
    Text(Box<BufStream<TcpStream>>),
    Grpc(Client),
}

impl Connection {
    async fn open(load: &Load) -> Result<Self> {
        if load.protocol == Protocol::Grpc {
            return Client::connect(load.addr).await.map(Self::Grpc);
        }
        let stream = TcpStream::connect(load.addr).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Self::Text(Box::new(BufStream::new(stream))))
    }

    /// Whether a request for a key is allowed.
    async fn ask(&mut self, load: &Load, key: &str) -> Result<bool> {
        let target = load.target;
        let text = |error: std::io::Error| error.to_string();
        match (self, load.protocol) {
            (Self::Grpc(client), _) => {
                let (path, message) = target.grpc(BENCH, key, BURST);
                Ok(is_allowed(&client.call(path, message.framed()).await?))
            }
            (Self::Text(stream), Protocol::Resp) => {
                let words = target.resp(BENCH, key, (BURST, &load.sha));
                resp(stream, &words).await.map_err(text)
            }
            (Self::Text(stream), _) => {
                let (path, body) = target.http(BENCH, key, BURST);
                http(stream, &post(&path, &body)).await.map_err(text)
            }
        }
    }
}

async fn resp(stream: &mut BufStream<TcpStream>, words: &[String]) -> std::io::Result<bool> {
    let word = |word: &String| format!("${}\r\n{word}\r\n", word.len());
    let command: String = words.iter().map(word).collect();
    stream.write_all(format!("*{}\r\n{command}", words.len()).as_bytes()).await?;
    stream.flush().await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    // A number, or a list of numbers whose first is the verdict.
    let Some(length) = line.trim().strip_prefix('*').and_then(|n| n.parse::<usize>().ok()) else {
        return Ok(line.starts_with(':'));
    };
    let mut verdict = false;
    for place in 0..length {
        line.clear();
        stream.read_line(&mut line).await?;
        verdict |= place == 0 && line.trim() == ":1";
    }
    Ok(verdict)
}

async fn http(stream: &mut BufStream<TcpStream>, request: &str) -> std::io::Result<bool> {
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let (mut line, mut length, mut is_ok) = (String::new(), 0, false);
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        is_ok |= line.starts_with("HTTP/1.1 200");
        let header = line.trim().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if header.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(is_ok && body.windows(14).any(|part| part == b"\"allowed\":true"))
}
