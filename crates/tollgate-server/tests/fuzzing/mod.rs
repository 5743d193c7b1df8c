//! Fuzz targets: for each protocol, a function that takes any bytes and panics if the server
//! misbehaves. `fuzz/` runs them guided by coverage, the tests over seeded bytes.
//!
//! Each target has one engine for the whole run, as a server has: state accumulates, and memory
//! must stay bounded. Its clock advances with every call.

mod grpc;
mod http;
mod policies;
mod resp;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tollgate::store::{BoxStore, Memory};
use tollgate::{Limiter, ManualClock, Result};
use tollgate_service::Engine;
use tollgate_service::receipt::ReceiptKey;

use crate::app::App;
use crate::config::Config;
use crate::listen::Client;
use crate::telemetry::Telemetry;

pub use grpc::grpc;
pub use http::http;
pub use policies::policies;
pub use resp::resp;

/// Takes any bytes, and panics on a defect.
pub type Target = fn(&[u8]);

/// Every target and its name.
pub const TARGETS: [(&str, Target); 4] =
    [("grpc", grpc), ("http", http), ("policies", policies), ("resp", resp)];

/// An arbitrary time.
const EPOCH: u64 = 1_800_000_000_000_000;
/// The time between two calls: request ids expire after some ten thousand calls.
const STEP: Duration = Duration::from_millis(10);

/// What authenticates the receipts of a target, so that their contents are fuzzed as well.
const RECEIPT_SECRET: &str = "0123456789abcdef";

/// One policy of each kind.
const POLICIES: &str = "
hash_secret: s
policies:
  a: {limit: 3 per 1s}
  b: {algorithm: token_bucket, refill: 1 per 1s, capacity: 5, hash_keys: 8}
  c: {algorithm: leaky_bucket, rate: 5 per 1s, queue: 3}
  d: {algorithm: fixed_window, limit: 4 per 1m, anchor: first_hit}
  e: {algorithm: sliding_window, limit: 6 per 1m, buckets: 3}
  f: {algorithm: sliding_log, limit: 5 per 10s, shadow: true}
  g:
    limits: [{name: s, limit: 2 per 1s}, {name: m, limit: 9 per 1m}]
    overrides: {v: {limits: [{name: s, limit: 1 per 1s}, {name: m, limit: 5 per 1m}]}}
";

/// The server of a target.
struct Fixture {
    app: Arc<App>,
    client: Arc<Client>,
    clock: ManualClock,
    runtime: Runtime,
    receipts: ReceiptKey,
}

impl Fixture {
    /// A server without tokens.
    fn new() -> Self {
        Self::with(&|_| None)
    }

    /// A server with settings of its own, by the names of their variables.
    fn with(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let made = Self::try_with(variable);
        #[expect(clippy::expect_used, reason = "a target needs its server")]
        made.expect("the policies are valid")
    }

    fn try_with(
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let clock = ManualClock::at(EPOCH);
        // Small, so that a run reaches its bounds.
        let memory = Memory::builder().max_keys(4_096).max_request_ids(4_096).build()?;
        let limiter = Limiter::with_clock(BoxStore::new(memory), clock.clone()).build();
        let config = Config::of_text(&[], variable, Some(("fuzz.yaml", POLICIES)))?;
        let telemetry = Telemetry::new(&config)?;
        let receipts = ReceiptKey::of_secrets(RECEIPT_SECRET, "").ok_or("a short secret")?;
        let engine = Engine::new(limiter, config.policies.clone());
        let app = App::new(engine.with_receipt_key(receipts.clone()), &config, telemetry);
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let client = Client::new(Arc::new(Semaphore::new(1)), false);
        Ok(Self { app, client, clock, runtime, receipts })
    }

    /// Advances the clock, and runs a future to completion.
    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.clock.advance(STEP);
        self.runtime.block_on(future)
    }
}

/// The first byte chooses one of several; the rest is the input.
fn choose<'a, T: Copy>(bytes: &'a [u8], of: &[T]) -> Option<(T, &'a [u8])> {
    let (first, rest) = bytes.split_first()?;
    let index = usize::from(*first).checked_rem(of.len())?;
    of.get(index).map(|chosen| (*chosen, rest))
}
