//! Waiting for processes that are not ours: ask, pause briefly, ask again, give up at a deadline.
//!
//! The only code of this crate that sleeps. A server says nothing when it becomes ready, so it has
//! to be asked; everything in this process waits on channels and condition variables instead.

use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use super::error::{Error, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(25);

/// The instant at which a wait ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    start: Instant,
    limit: Duration,
}

impl Deadline {
    /// `limit` from now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "other processes follow no clock of a test")]
    pub fn after(limit: Duration) -> Self {
        Self { start: Instant::now(), limit }
    }

    /// The time that is left; zero once it has passed.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.limit.saturating_sub(self.start.elapsed())
    }

    /// Whether it has passed.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.left().is_zero()
    }
}

/// Asks until the answer is good.
///
/// # Errors
/// The last error, once `limit` has passed.
pub fn until_ok<T>(limit: Duration, mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    until_settled(limit, || match ask() {
        Ok(answer) => ControlFlow::Break(Ok(answer)),
        Err(error) => ControlFlow::Continue(error),
    })
}

/// Asks until the question is settled: `Break` ends it either way, `Continue` says why not yet.
///
/// # Errors
/// What `Break` held, or the last reason once `limit` has passed.
pub fn until_settled<T>(
    limit: Duration,
    mut ask: impl FnMut() -> ControlFlow<Result<T>, Error>,
) -> Result<T> {
    let deadline = Deadline::after(limit);
    let mut pause = FIRST_PAUSE;
    loop {
        match ask() {
            ControlFlow::Break(settled) => return settled,
            ControlFlow::Continue(reason) if deadline.has_passed() => {
                return Err(reason.during(format!("not within {} s", limit.as_secs())));
            }
            ControlFlow::Continue(_) => {}
        }
        sleep(pause.min(deadline.left()));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[expect(clippy::disallowed_methods, reason = "nothing tells us when another process is ready")]
fn sleep(pause: Duration) {
    thread::sleep(pause);
}
