//! Waits for other processes by polling, up to a deadline.
//!
//! The only code of this crate that sleeps: a server sends no event when it becomes ready. Code
//! within this process waits on channels and condition variables instead.

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

/// Tries until an attempt succeeds.
///
/// # Errors
/// The last error, once `limit` has passed.
pub fn until_ok<T>(limit: Duration, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    until_settled(limit, || match attempt() {
        Ok(value) => ControlFlow::Break(Ok(value)),
        Err(error) => ControlFlow::Continue(error),
    })
}

/// Tries until the result is final: `Break` holds it, `Continue` holds the reason to try again.
///
/// # Errors
/// The error in `Break`, or the last reason once `limit` has passed.
pub fn until_settled<T>(
    limit: Duration,
    mut attempt: impl FnMut() -> ControlFlow<Result<T>, Error>,
) -> Result<T> {
    let deadline = Deadline::after(limit);
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt() {
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

#[expect(clippy::disallowed_methods, reason = "another process sends no event when it is ready")]
fn sleep(pause: Duration) {
    thread::sleep(pause);
}
