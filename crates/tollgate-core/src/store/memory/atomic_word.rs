//! The atomics of the critical section, as a trait: so that the model checker can bring its own and
//! explore every interleaving of the very code that ships.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often to look again before giving the processor away: a line is held for nanoseconds, unless
/// its holder was taken off the processor.
const SPINS: u32 = 64;
/// How many looks to sit out after the first lost race. Two processors that answer every loss at
/// once only take the line from each other; one that pauses leaves it where it is in use.
const FIRST_PAUSE: u32 = 16;
/// The longest pause: it doubles with each further loss.
const LONGEST_PAUSE: u32 = 64;

/// An atomic word. Every load acquires and every store releases.
pub(super) trait AtomicWord {
    fn load(&self) -> u64;
    fn store(&self, word: u64);
    fn swap(&self, word: u64) -> u64;
    /// Whether `new` took the place of `expected`.
    fn replace(&self, expected: u64, new: u64) -> bool;
    /// Lets the holder of a line go on.
    fn wait(spins: &mut u32);
    /// Steps back after a lost race, longer each time.
    fn step_back(pause: &mut u32);
}

impl AtomicWord for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, word: u64) {
        self.store(word, Ordering::Release);
    }

    #[inline]
    fn swap(&self, word: u64) -> u64 {
        self.swap(word, Ordering::AcqRel)
    }

    #[inline]
    fn replace(&self, expected: u64, new: u64) -> bool {
        self.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(spins: &mut u32) {
        if *spins < SPINS {
            *spins += 1;
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }

    #[cold]
    fn step_back(pause: &mut u32) {
        *pause = (*pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        for _ in 0..*pause {
            std::hint::spin_loop();
        }
    }
}
