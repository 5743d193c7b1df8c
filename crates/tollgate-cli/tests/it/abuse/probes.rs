//! Health checks as an orchestrator makes them: each over a connection of its own, without a token.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot::Receiver;
use tokio::time::{Instant, interval, timeout};

use super::attacks::{answer, health_check};
use super::bystander::Latencies;

/// How often each protocol is probed, and how long an answer may take.
const PAUSE: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(1);

/// The probes so far.
#[derive(Default)]
pub(super) struct Probes {
    answered: Vec<Duration>,
    pub(super) failed: usize,
}

impl Probes {
    /// Probes HTTP and gRPC in turn until `end` is ready, on a thread that does not wait for the
    /// clients that attack.
    pub(super) fn run_until(end: Receiver<()>, http: &str, grpc: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let mut probes = Self::default();
        runtime.block_on(async {
            tokio::select! {
                _ = end => {}
                () = probes.run(http, grpc) => {}
            }
        });
        probes
    }

    async fn run(&mut self, http: &str, grpc: &str) {
        let mut turns = interval(PAUSE);
        loop {
            turns.tick().await;
            self.note(timeout(TIMEOUT, probe_http(http))).await;
            self.note(timeout(TIMEOUT, probe_grpc(grpc))).await;
        }
    }

    async fn note<E>(&mut self, probe: impl Future<Output = Result<std::io::Result<()>, E>>) {
        let began = Instant::now();
        match probe.await {
            Ok(Ok(())) => self.answered.push(began.elapsed()),
            Ok(Err(_)) | Err(_) => self.failed += 1,
        }
    }

    pub(super) fn latencies(&self) -> Latencies {
        Latencies::of(self.answered.clone())
    }
}

async fn probe_http(address: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let mut status = [0; 12];
    stream.read_exact(&mut status).await?;
    if &status == b"HTTP/1.1 200" { Ok(()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

async fn probe_grpc(address: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&health_check()).await?;
    answer(&mut stream).await
}
