//! How long calls take, noted where they end.
//!
//! Each thread has a list of its own, which all callers on it share: hundreds of lists, one for
//! each caller, would miss the cache on every call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type List = Mutex<Vec<u32>>;

static ALL: Mutex<Vec<Arc<List>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: Arc<List> = {
        let own = Arc::new(Mutex::new(Vec::new()));
        lock(&ALL).push(Arc::clone(&own));
        own
    };
}

/// Notes one latency.
pub(super) fn note(latency: Duration) {
    let nanos = u32::try_from(latency.as_nanos()).unwrap_or(u32::MAX);
    OWN.with(|own| lock(own).push(nanos));
}

/// All latencies in nanoseconds since the last time.
pub(super) fn take() -> Vec<u32> {
    let mut all = Vec::new();
    // Lists keep their room for the next round.
    lock(&ALL).iter().for_each(|list| all.append(&mut lock(list)));
    all
}

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_of_all_threads_are_taken_once() {
        let threads = (0..3).map(|_| std::thread::spawn(|| note(Duration::from_nanos(7))));
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        note(Duration::from_secs(60));
        let mut all = take();
        all.sort_unstable();
        assert_eq!(all, [7, 7, 7, u32::MAX]);
        assert!(take().is_empty());
    }
}
