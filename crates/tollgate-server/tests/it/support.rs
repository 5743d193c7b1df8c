//! A server on ports that the operating system chose, and clients for it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tollgate::store::{BoxStore, Memory};
use tollgate::{Limiter, ManualClock, Quota};
use tollgate_proto::tollgate_v1::rate_limiter_client::RateLimiterClient;
use tollgate_server::engine::Engine;
use tollgate_server::policy::Policies;
use tollgate_server::{Addresses, Config, Server};
use tonic::transport::Channel;

/// An arbitrary time.
pub(crate) const NOW: u64 = 1_800_000_000_000_000;

/// The preface of HTTP/2, and empty settings.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A server that runs.
pub(crate) struct Running {
    pub(crate) at: Addresses,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// A bucket of ten that refills in ten days.
pub(crate) fn slow() -> Policies {
    Policies::of_default(10, Quota::per_day(1)).unwrap()
}

/// Every page of the documentation: its path and its text.
pub(crate) fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = vec![root.join("README.md"), root.join("crates/tollgate-tower/README.md")];
    for folder in ["docs", "docs/design"] {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        files.extend(entries.map(|entry| entry.unwrap().path()));
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    let read = |file: PathBuf| (file.clone(), fs::read_to_string(file).unwrap());
    files.into_iter().map(read).collect()
}

/// All protocols, on ports that the operating system chooses.
pub(crate) fn config() -> Config {
    let any = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let mut config = Config::built_in().unwrap();
    (config.http, config.grpc, config.resp) = (any, any, any);
    config
}

impl Running {
    /// With these policies, in memory.
    pub(crate) async fn with(policies: Policies) -> Self {
        let mut config = config();
        config.policies = policies;
        Self::of(Server::bind(config).await.unwrap())
    }

    /// With a clock that the test moves.
    pub(crate) async fn with_clock(policies: Policies, clock: &ManualClock) -> Self {
        let limiter = Limiter::with_clock(BoxStore::new(Memory::new()), clock.clone()).build();
        let engine = Engine::new(limiter, policies);
        Self::of(Server::bind_engine(config(), engine).await.unwrap())
    }

    pub(crate) fn of(server: Server) -> Self {
        let at = server.addresses().unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async move {
            let _gone = stopped.await;
        }));
        Self { at, stop, task }
    }

    /// Ends the server, and waits until it has.
    pub(crate) async fn end(self) {
        let _gone = self.stop.send(());
        self.task.await.unwrap();
    }

    /// Starts the shutdown, and does not wait for its end.
    pub(crate) fn shut_down(self) -> JoinHandle<()> {
        let _gone = self.stop.send(());
        self.task
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.at.http.unwrap())
    }

    /// Posts JSON; the status and the body.
    pub(crate) async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let client = reqwest::Client::new();
        let response = client.post(self.url(path)).body(body.to_owned()).send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
    }

    /// All metrics.
    pub(crate) async fn metrics(&self) -> String {
        reqwest::get(self.url("/metrics")).await.unwrap().text().await.unwrap()
    }

    /// Waits for a status of `/readyz`, which is cached for a second; its body.
    pub(crate) async fn becomes_ready(&self, status: u16) -> String {
        loop {
            let response = reqwest::get(self.url("/readyz")).await.unwrap();
            if response.status().as_u16() == status {
                return response.text().await.unwrap();
            }
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn channel(&self) -> Channel {
        let address = format!("http://{}", self.at.grpc.unwrap());
        Channel::from_shared(address).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn grpc(&self) -> RateLimiterClient<Channel> {
        RateLimiterClient::new(self.channel().await)
    }

    pub(crate) async fn resp(&self) -> Resp {
        Resp(TcpStream::connect(self.at.resp.unwrap()).await.unwrap())
    }
}

/// A frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The headers of a gRPC call: indexed fields, and literals that are not indexed.
pub(crate) fn head(path: &[u8]) -> Vec<u8> {
    [
        b"\x83\x86\x04".as_slice(),
        &[u8::try_from(path.len()).unwrap()],
        path,
        b"\x01\x09localhost\x0f\x10\x10application/grpc\x00\x02te\x08trailers",
    ]
    .concat()
}

/// A minimal client of the RESP interface: sends words, reads bytes.
pub(crate) struct Resp(pub(crate) TcpStream);

impl Resp {
    pub(crate) fn command(words: &[&str]) -> String {
        let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
        format!("*{}\r\n{}", words.len(), words.iter().map(word).collect::<String>())
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// Reads exactly as many bytes as are expected, and compares.
    pub(crate) async fn expect(&mut self, reply: &str) {
        let mut bytes = vec![0; reply.len()];
        let read = tokio::time::timeout(Duration::from_secs(60), self.0.read_exact(&mut bytes));
        read.await.expect("a reply within a minute").unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), reply);
    }

    /// Reads until the server closes.
    pub(crate) async fn rest(&mut self) -> String {
        let mut text = String::new();
        let read = tokio::time::timeout(Duration::from_secs(60), self.0.read_to_string(&mut text));
        read.await.expect("an end within a minute").unwrap();
        text
    }

    /// Reads until the server closes, whatever it sends.
    pub(crate) async fn rest_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(60), self.0.read_to_end(&mut bytes));
        let _reset = read.await.expect("an end within a minute");
        bytes
    }

    /// A command that is answered by an array of five integers.
    pub(crate) async fn five(&mut self, words: &[&str]) -> [i64; 5] {
        self.integers(words).await
    }

    /// A command that is answered by an array of this many integers.
    pub(crate) async fn integers<const N: usize>(&mut self, words: &[&str]) -> [i64; N] {
        self.send(Self::command(words).as_bytes()).await;
        assert_eq!(self.line().await, format!("*{N}"));
        let mut numbers = [0; N];
        for number in &mut numbers {
            let line = self.line().await;
            *number = line.strip_prefix(':').expect("an integer").parse().unwrap();
        }
        numbers
    }

    /// The reply to a command, as JSON: an error is a text.
    pub(crate) async fn reply(&mut self, words: &[&str]) -> Value {
        self.send(Self::command(words).as_bytes()).await;
        Box::pin(self.value()).await
    }

    pub(crate) async fn value(&mut self) -> Value {
        let line = self.line().await;
        let (kind, rest) = line.split_at(1);
        match (kind, rest) {
            (":", number) => number.parse::<i64>().unwrap().into(),
            ("#", truth) => (truth == "t").into(),
            ("_", _) => Value::Null,
            ("%", length) => {
                let mut fields = serde_json::Map::new();
                for _ in 0..length.parse::<u64>().unwrap() {
                    let name = Box::pin(self.value()).await;
                    let value = Box::pin(self.value()).await;
                    fields.insert(name.as_str().unwrap().to_owned(), value);
                }
                fields.into()
            }
            ("$", "-1") => Value::Null,
            ("$", _) => self.line().await.into(),
            ("*", length) => {
                let mut elements = Vec::new();
                for _ in 0..length.parse::<u64>().unwrap() {
                    elements.push(Box::pin(self.value()).await);
                }
                elements.into()
            }
            _ => line.into(),
        }
    }

    /// A command that is answered by one line.
    pub(crate) async fn call(&mut self, words: &[&str]) -> String {
        self.send(Self::command(words).as_bytes()).await;
        self.line().await
    }

    async fn line(&mut self) -> String {
        let mut line = Vec::new();
        loop {
            let byte = self.0.read_u8().await.expect("a whole line");
            line.push(byte);
            if let Some(text) = line.strip_suffix(b"\r\n") {
                return String::from_utf8(text.to_vec()).unwrap();
            }
        }
    }
}
