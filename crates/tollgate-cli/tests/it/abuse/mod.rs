//! Clients that hold resources or flood, each beside a client that makes ordinary requests and
//! beside the health checks of an orchestrator.
//!
//! Every attack runs for `TOLLGATE_ABUSE_SECONDS` (1 by default; `cargo xtask soak abuse` sets
//! more) against a server of its own, over the store of `TOLLGATE_ABUSE_STORE` (`memory` or
//! `sqlite`), or only the one that `TOLLGATE_ABUSE_ONLY` names. Many of them open more connections
//! than a listener has. The ordinary client must get every answer, health checks are answered, and
//! the memory of the server is bounded. Latencies are printed; they have bounds in long runs only,
//! where the machine has nothing else to do.

mod attacks;
mod bystander;
mod floods;
mod probes;

use std::fs;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_blocking};
use tollgate_test_servers::Folder;

use crate::support::Serving;
use attacks::{ATTACKS, Attack};
use bystander::Bystander;
use probes::Probes;

/// More than this, and a server that was given 256 MiB could be killed.
const MEMORY_MAX_KIB: u64 = 128 * 1_024;
/// The bound on the 99th percentile in a long run.
const P99_MAX: Duration = Duration::from_millis(20);
const SECONDS: &str = "TOLLGATE_ABUSE_SECONDS";
const STORE: &str = "TOLLGATE_ABUSE_STORE";
const ONLY: &str = "TOLLGATE_ABUSE_ONLY";

const TOKEN: &str = "token-of-an-ordinary-caller";

/// Fewer connections than the largest attack has.
const SETTINGS: [(&str, &str); 2] = [("TOLLGATE_TOKENS", TOKEN), ("TOLLGATE_CONNECTIONS", "256")];

/// What the ordinary client charges takes little memory, however many requests it makes.
const POLICIES: &str = "
policies:
  default: { algorithm: token_bucket, capacity: 10, refill: 1 per second }
  customers:
    algorithm: token_bucket
    capacity: 1000000
    refill: 1000000 per day
    max_keys: 10000
    request_ids: {max: 10000}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_requests_are_answered_whatever_other_clients_do() {
    let seconds = std::env::var(SECONDS).ok().map(|text| text.parse().unwrap());
    let config = crate::file("abuse.yaml", POLICIES);
    println!(
        "{:26} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8} {:>6}",
        "attack", "MiB more", "requests", "p50 us", "p99 us", "probes", "p99 us", "failed"
    );
    let time = Duration::from_secs(seconds.unwrap_or(1));
    let only = std::env::var(ONLY).ok();
    let is_wanted = |name| only.as_deref().is_none_or(|only| only == name);
    assert!(ATTACKS.iter().any(|attack| is_wanted(attack.name)), "{ONLY}: no such attack");
    // A long run measures all attacks before it fails.
    let mut exceeded = Vec::new();
    for attack in ATTACKS.into_iter().filter(|attack| is_wanted(attack.name)) {
        let Attack { name, .. } = attack;
        let folder = Folder::new("abuse").unwrap();
        let store = match std::env::var(STORE).as_deref() {
            Ok("sqlite") => format!("sqlite:{}", folder.path().join("limits.db").display()),
            Ok("memory") | Err(_) => "memory:".to_owned(),
            Ok(other) => panic!("{STORE}={other}; accepted: memory, sqlite"),
        };
        let arguments = ["--config", config.to_str().unwrap(), "--store", &store];
        let server = Serving::start(&arguments, &SETTINGS);
        let idle = memory(&server, "VmRSS:");
        let mut clients = JoinSet::new();
        (0..attack.connections).for_each(|number| {
            clients.spawn(attacks::repeat(attack, server.at(attack.protocol).to_owned(), number));
        });
        // Threads of their own, which do not wait for the clients that attack.
        let bystander = Bystander::connect(&server);
        let (end, ends) = oneshot::channel();
        let (http, grpc) = (server.at("HTTP").to_owned(), server.at("gRPC").to_owned());
        let probing = spawn_blocking(move || Probes::run_until(ends, &http, &grpc));
        let latencies = spawn_blocking(move || bystander.run_for(time)).await.unwrap();
        drop(end);
        let probes = probing.await.unwrap();
        clients.shutdown().await;
        let more = memory(&server, "VmHWM:").saturating_sub(idle);
        let (p99, probed) = (latencies.percentile(99), probes.latencies());
        println!(
            "{name:26} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8} {:>6}",
            more / 1_024,
            latencies.count(),
            latencies.percentile(50).as_micros(),
            p99.as_micros(),
            probed.count(),
            probed.percentile(99).as_micros(),
            probes.failed
        );
        // Beside other tests, a build without optimisation is late for any bound.
        let is_measured = seconds.is_some();
        let bounds = [
            (more < MEMORY_MAX_KIB, format!("{more} KiB more than idle")),
            (probed.count() > 0, "no probe was answered".to_owned()),
            (!is_measured || probes.failed == 0, format!("{} probes failed", probes.failed)),
            (!is_measured || p99 < P99_MAX, format!("{p99:?} at the 99th percentile")),
        ];
        let missed = bounds.into_iter().filter(|(is_met, _)| !is_met);
        exceeded.extend(missed.map(|(_, what)| format!("{name}: {what}")));
        drop(server);
    }
    assert!(exceeded.is_empty(), "{exceeded:#?}");
}

/// A figure of the memory of a server, in KiB.
pub(crate) fn memory(server: &Serving, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}
