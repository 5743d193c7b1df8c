//! One queue per busy key, for stores whose rounds write one key, or a few keys at once.
//!
//! A caller may need several keys. It joins all their queues in one critical section, so any two
//! callers meet in the same order everywhere: waiting can neither deadlock nor overtake. A caller
//! leads when it is at the front of all its queues, and its round holds the keys until it ends. A
//! caller of one key may be decided in the round of another one; a caller of several keys is alone
//! in its round, and no caller overtakes it.
//!
//! A cancelled waiter stays where it is and is skipped when its turn comes, so cancelling costs
//! little and never blocks others. Wakers run only after the lock is released, because an executor
//! may poll from inside of `wake`.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::task::Waker;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};

use super::sync::{AtomicU64, Mutex, MutexGuard, Relaxed};
use super::waiter::Waiter;
use super::{Pending, Queues, Reply};
use crate::store::CallContext;

/// The queues of all busy keys.
pub struct KeyQueues<J, R> {
    round_max: usize,
    keys: Mutex<HashMap<Key, KeyQueue<J, R>>>,
}

/// A busy key.
#[derive(Clone, Debug)]
pub struct Key(Arc<KeyStats>);

/// What happened on a key since it became busy.
#[derive(Debug)]
struct KeyStats {
    name: Box<str>,
    /// Rounds that the backend answered.
    answered: AtomicU64,
}

/// Callers that wait for a key. The first of them, or a round, holds the key.
struct KeyQueue<J, R> {
    waiters: VecDeque<Arc<Waiter<J, R>>>,
    /// Whether a round holds the key: its waiters are not in the queue.
    is_held: bool,
}

impl<J, R: Reply> KeyQueues<J, R> {
    /// No key is busy. A round has at most `round_max` waiters.
    #[must_use]
    pub fn new(round_max: usize) -> Arc<Self> {
        Arc::new(Self { round_max: round_max.max(1), keys: Mutex::default() })
    }

    /// Adds a caller to the queues of these keys, which are distinct. If it `shares`, it may be
    /// decided in a round with other callers of its key: only a caller of one key can.
    pub fn submit<'c>(
        self: &'c Arc<Self>,
        keys: &[&str],
        (job, shares): (J, bool),
        cx: CallContext<'c>,
    ) -> Pending<'c, J, R, Self> {
        let mut busy = self.lock();
        let mut missing = 0;
        let own = keys.iter().map(|name| match busy.get_key_value(*name) {
            Some((key, _)) => {
                missing += 1;
                key.clone()
            }
            None => {
                let answered = AtomicU64::new(0);
                Key(Arc::new(KeyStats { name: (*name).into(), answered }))
            }
        });
        let own: Arc<[Key]> = own.collect();
        let shares = shares && own.len() == 1;
        let waiter = Arc::new(Waiter::new(job, (sum(&own), missing), shares));
        for key in &*own {
            let queue = busy
                .entry(key.clone())
                .or_insert_with(|| KeyQueue { waiters: VecDeque::new(), is_held: false });
            queue.waiters.push_back(Arc::clone(&waiter));
        }
        drop(busy);
        Pending::new(self, own, waiter, cx)
    }

    /// How many keys are busy.
    #[must_use]
    pub fn busy(&self) -> usize {
        self.lock().len()
    }
}

impl<J, R> KeyQueues<J, R> {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, KeyQueue<J, R>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the queues of these keys, wakes the waiters that lead then, and forgets keys that
    /// are not busy.
    fn change(&self, keys: &[Key], mut change: impl FnMut(&mut KeyQueue<J, R>) -> Option<Waker>) {
        let mut woken = Vec::new();
        let mut busy = self.lock();
        for key in keys {
            let Some(queue) = busy.get_mut(key) else { continue };
            woken.extend(change(queue));
            if queue.waiters.is_empty() && !queue.is_held {
                busy.remove(key);
            }
        }
        drop(busy);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl<J, R> KeyQueue<J, R> {
    fn is_first(&self, waiter: &Arc<Waiter<J, R>>) -> bool {
        self.waiters.front().is_some_and(|first| Arc::ptr_eq(first, waiter))
    }

    /// Gives the key to the first that still waits: its waker if it leads now.
    fn give_to_first(&mut self) -> Option<Waker> {
        while let Some(first) = self.waiters.front() {
            match first.reach_front() {
                Some((_, waker)) => return waker,
                None => drop(self.waiters.pop_front()),
            }
        }
        None
    }
}

impl<J, R: Reply> Queues<J, R> for KeyQueues<J, R> {
    type Queue = Arc<[Key]>;

    fn round_max(&self) -> usize {
        self.round_max
    }

    fn answered(&self, keys: &Arc<[Key]>) -> u64 {
        sum(keys)
    }

    fn count_answered(&self, keys: &Arc<[Key]>) {
        for key in &**keys {
            key.0.answered.fetch_add(1, Relaxed);
        }
    }

    /// Those that may share a round. The first that needs a round of its own ends the row: no
    /// caller overtakes it.
    fn take(&self, keys: &Arc<[Key]>, max: usize) -> Vec<Arc<Waiter<J, R>>> {
        let mut taken = Vec::new();
        let [key] = &**keys else { return taken };
        let mut busy = self.lock();
        let Some(queue) = busy.get_mut(key) else { return taken };
        while taken.len() < max
            && let Some(first) =
                queue.waiters.pop_front_if(|first| first.shares() || !first.is_waiting())
        {
            if first.is_waiting() {
                taken.push(first);
            }
        }
        taken
    }

    fn put_back(&self, keys: &Arc<[Key]>, waiters: Vec<Arc<Waiter<J, R>>>) {
        let waiting: Vec<_> =
            waiters.into_iter().filter(|waiter| waiter.wait_again(keys.len())).collect();
        // The round still holds the keys: its end gives them to the first.
        self.change(keys, |queue| {
            for waiter in waiting.iter().rev() {
                queue.waiters.push_front(Arc::clone(waiter));
            }
            None
        });
    }

    fn lead(
        &self,
        keys: &Arc<[Key]>,
        waiter: &Arc<Waiter<J, R>>,
    ) -> Option<Vec<Arc<Waiter<J, R>>>> {
        if !waiter.may_lead() {
            return None;
        }
        let mut busy = self.lock();
        for key in &**keys {
            let queue = busy.get_mut(key)?;
            if queue.is_held || !queue.is_first(waiter) {
                return None;
            }
        }
        for key in &**keys {
            let queue = busy.get_mut(key)?;
            queue.waiters.pop_front();
            queue.is_held = true;
        }
        drop(busy);
        let mut members = vec![Arc::clone(waiter)];
        if waiter.shares() {
            members.extend(self.take(keys, self.round_max - 1));
        }
        Some(members)
    }

    fn end(&self, keys: &Arc<[Key]>, _: usize) {
        self.change(keys, |queue| {
            queue.is_held = false;
            queue.give_to_first()
        });
    }

    fn cancelled(&self, keys: &Arc<[Key]>, waiter: &Arc<Waiter<J, R>>) {
        self.change(keys, |queue| {
            if queue.is_held || !queue.is_first(waiter) {
                return None;
            }
            queue.waiters.pop_front();
            queue.give_to_first()
        });
    }
}

fn sum(keys: &[Key]) -> u64 {
    keys.iter().fold(0, |sum, key| sum.wrapping_add(key.0.answered.load(Relaxed)))
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

/// As its name, by which it is looked up.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Key {}

impl<J, R> fmt::Debug for KeyQueues<J, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyQueues").field("round_max", &self.round_max).finish_non_exhaustive()
    }
}
