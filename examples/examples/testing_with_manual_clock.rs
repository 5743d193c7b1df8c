//! You learn: test an application that is rate limited without a server and without sleeping. The
//! clock is a parameter, a test moves it, and an outage is a wrapper around the store.
//!
//! Run it: `cargo run -p tollgate-examples --example testing_with_manual_clock`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tollgate::algorithm::TokenBucket;
use tollgate::store::{Memory, Store};
use tollgate::{Clock, Limit, Limiter, OutageMode, Quota, Result, SystemClock};
use tollgate_testkit::runtime::block_on;

/// The application: it sends invitations, at most three at once and one more per minute.
struct Invitations<S> {
    limiter: Limiter<S>,
    per_sender: Limit,
}

/// The result of an invitation.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Yes,
    InMillis(u64),
    Later,
}

impl<S: Store> Invitations<S> {
    fn new(store: S, clock: impl Clock + 'static) -> Result<Self> {
        let bucket = TokenBucket::new(3, Quota::per_minute(1))?;
        // Invitations can wait: without the store, send none.
        let per_sender = Limit::new("invitations", bucket)?.on_outage(OutageMode::Closed);
        Ok(Self { limiter: Limiter::with_clock(store, clock).build(), per_sender })
    }

    async fn send(&self, sender: &str) -> Result<Sent> {
        let decision = self.limiter.check(self.per_sender.charge(sender)).await?;
        Ok(match decision.retry_after_ms {
            _ if decision.degraded.is_some() => Sent::Later,
            Some(0) => Sent::Yes,
            Some(wait) => Sent::InMillis(wait),
            None => Sent::Later,
        })
    }
}

fn main() -> Result<()> {
    // The application uses the clock of the system.
    let invitations = Invitations::new(Memory::new(), SystemClock::new())?;
    for _ in 0..4 {
        println!("{:?}", block_on(invitations.send("ada"))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use tollgate::ManualClock;
    use tollgate_testkit::fault::{Fault, Faulty};

    /// Any instant will do; nothing here depends on today.
    const START: u64 = 1_700_000_000_000_000;

    #[test]
    fn three_at_once_then_one_per_minute() {
        let clock = ManualClock::at(START);
        let invitations = Invitations::new(Memory::new(), clock.clone()).unwrap();
        let send = || block_on(invitations.send("ada")).unwrap();
        assert_eq!([send(), send(), send()], [Sent::Yes, Sent::Yes, Sent::Yes]);
        assert_eq!(send(), Sent::InMillis(60_000));
        clock.advance(Duration::from_millis(59_999));
        assert_eq!(send(), Sent::InMillis(1));
        clock.advance(Duration::from_millis(1));
        assert_eq!(send(), Sent::Yes);
    }

    #[test]
    fn a_clock_that_steps_back_refills_nothing() {
        let clock = ManualClock::at(START);
        let invitations = Invitations::new(Memory::new(), clock.clone()).unwrap();
        let send = || block_on(invitations.send("ada")).unwrap();
        assert_eq!([send(), send(), send()], [Sent::Yes, Sent::Yes, Sent::Yes]);
        clock.set(START - 3_600_000_000);
        assert_eq!(send(), Sent::InMillis(3_660_000));
    }

    #[test]
    fn without_the_store_nothing_is_sent() {
        let clock = ManualClock::at(START);
        let store = Faulty::scripted(Memory::new(), clock.clone(), [Fault::After]);
        let invitations = Invitations::new(store, clock).unwrap();
        assert_eq!(block_on(invitations.send("ada")).unwrap(), Sent::Later);
        assert_eq!(block_on(invitations.send("ada")).unwrap(), Sent::Yes);
    }
}
