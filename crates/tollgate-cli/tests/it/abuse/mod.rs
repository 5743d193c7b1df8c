//! Clients that hold resources or flood, each beside a client that makes ordinary requests.
//!
//! Every attack runs for `TOLLGATE_ABUSE_SECONDS` (1 by default; `cargo xtask soak abuse` sets
//! more) against a server of its own. The ordinary client must get every answer, and the memory of
//! the server is bounded. Its latency is printed; it has a bound in long runs only, where the
//! machine has nothing else to do.

mod attacks;
mod bystander;

use std::fs;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::support::Serving;
use attacks::{ATTACKS, Attack};
use bystander::Bystander;

/// More than this, and a server that was given 256 MiB could be killed.
const MEMORY_MAX_KIB: u64 = 128 * 1_024;
/// The bound on the 99th percentile in a long run.
const P99_MAX: Duration = Duration::from_millis(20);
const SECONDS: &str = "TOLLGATE_ABUSE_SECONDS";

const TOKEN: &str = "token-of-an-ordinary-caller";

const POLICIES: &str = "
policies:
  default: { algorithm: token_bucket, capacity: 10, refill: 1 per second }
  customers: { algorithm: token_bucket, capacity: 1000000, refill: 1000000 per second }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_requests_are_answered_whatever_other_clients_do() {
    let seconds = std::env::var(SECONDS).ok().map(|text| text.parse().unwrap());
    let config = crate::file("abuse.yaml", POLICIES);
    println!("{:32} {:>9} {:>9} {:>9} {:>9}", "attack", "MiB more", "requests", "p50 us", "p99 us");
    let time = Duration::from_secs(seconds.unwrap_or(1));
    let mut quiet = None;
    for attack in ATTACKS {
        let server =
            Serving::start(&["--config", config.to_str().unwrap()], &[("TOLLGATE_TOKENS", TOKEN)]);
        let idle = memory(&server, "VmRSS:");
        let mut clients = JoinSet::new();
        (0..attack.connections).for_each(|number| {
            clients.spawn(attacks::repeat(attack, server.at(attack.protocol).to_owned(), number));
        });
        // A thread of its own, which does not wait for the clients that attack.
        let bystander = Bystander::connect(&server);
        let latencies = tokio::task::spawn_blocking(move || bystander.run_for(time)).await.unwrap();
        clients.shutdown().await;
        let more = memory(&server, "VmHWM:").saturating_sub(idle);
        let (p50, p99) = (latencies.percentile(50), latencies.percentile(99));
        let Attack { name, .. } = attack;
        let (count, mib) = (latencies.count(), more / 1_024);
        println!("{name:32} {mib:>9} {count:>9} {:>9} {:>9}", p50.as_micros(), p99.as_micros());
        assert!(more < MEMORY_MAX_KIB, "{name}: {more} KiB more than idle");
        assert!(seconds.is_none() || p99 < P99_MAX, "{name}: {p99:?} at the 99th percentile");
        quiet.get_or_insert(p99);
        drop(server);
    }
    println!("99th percentile without an attack: {:?}", quiet.unwrap());
}

/// A figure of the memory of a server, in KiB.
fn memory(server: &Serving, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}
