//! Pauses between attempts: each twice as long as the one before, and none that all clients share.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Doubles from `first` to `longest`, each pause shortened by up to a half.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// Begins anew.
    pub(super) const fn reset(&mut self) {
        self.next = self.first;
    }

    /// The next pause.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (self.next * 2).min(self.longest);
        pause / 2 + Duration::from_micros(random() % (micros(pause / 2) + 1))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX - 1)
}

/// A number that other processes do not share. The keys of a hasher are random.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(10), ms(1_000));
        for longest in [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000] {
            let pause = backoff.pause();
            assert!(pause >= ms(longest) / 2 && pause <= ms(longest), "{pause:?} of {longest} ms");
        }
        backoff.reset();
        assert!(backoff.pause() <= ms(10));
    }
}
