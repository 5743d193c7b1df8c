//! The configuration of a server that runs: applied when a file of it changes, and on SIGHUP.

use std::time::Duration;

use tokio::signal::unix::Signal;
use tollgate_server::Watch;

use crate::log::Level;

/// How often the files are read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Applies changes until the task is aborted. What changed is logged, and so is what is refused.
pub(super) async fn run(mut watch: Watch, level: Level, mut hangup: Signal) {
    let mut poll = tokio::time::interval(POLL_INTERVAL);
    loop {
        let signalled = tokio::select! {
            _ = hangup.recv() => true,
            _ = poll.tick() => false,
        };
        // A file system may take its time.
        let look = tokio::task::spawn_blocking(move || {
            let applied = watch.look(signalled);
            (watch, applied)
        });
        let Ok((same, applied)) = look.await else { return };
        watch = same;
        if let Some(Ok(reloaded)) = applied {
            level.set(reloaded.log_level);
        }
    }
}
