//! Reports a clock that is far from the wall clock of its host.

use std::sync::Arc;
use std::time::Duration;

use tollgate::clock::ClockHealth;
use tollgate_service::Engine;

/// How often the clock is verified. Reading it also corrects it, in a server without requests too.
const INTERVAL: Duration = Duration::from_secs(10);

/// Logs offsets beyond the bound, once each, until the task is aborted.
pub(crate) async fn watch_clock(engine: Arc<Engine>) {
    let mut before = ClockHealth::default();
    loop {
        let clock = engine.limiter().clock();
        clock.now();
        let health = clock.health();
        report(&before, &health);
        before = health;
        tokio::time::sleep(INTERVAL).await;
    }
}

fn report(before: &ClockHealth, now: &ClockHealth) {
    let (ahead_ms, largest_ms) = (now.ahead / 1_000, now.largest / 1_000);
    if now.corrections > before.corrections {
        let remedy = "verify the time service of the host";
        let message = "the clock was far from the wall clock of its host";
        tracing::warn!(ahead_ms, largest_ms, remedy, "{message}");
    } else if before.is_out_of_bounds() && !now.is_out_of_bounds() {
        tracing::info!(ahead_ms, "the clock is close to the wall clock again");
    }
}
