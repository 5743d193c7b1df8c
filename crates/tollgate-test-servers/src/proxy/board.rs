//! The state that the threads of a proxy share: the mode, the links, and the counters.
//!
//! A thread delivers bytes under a read lock of the mode, and a change of the mode takes the write
//! lock: once the mode has changed, no byte is delivered under the old one.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use super::link::Link;
use super::{Mode, Traffic};
use crate::error::{Error, Result};
use crate::wait::Deadline;

#[derive(Debug)]
pub(super) struct Board {
    gate: RwLock<Mode>,
    now: Mutex<Now>,
    changed: Condvar,
    /// What is counted; nothing if it is empty.
    pub(super) counts: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Now {
    pub(super) mode: Mode,
    /// Whether the acceptor has a socket on which it listens.
    pub(super) listens: bool,
    /// Whether the proxy has come to its end.
    pub(super) closing: bool,
    pub(super) traffic: Traffic,
    /// Open links, numbered from 1.
    pub(super) links: BTreeMap<u64, Weak<Link>>,
}

impl Board {
    pub(super) fn new(counts: &str) -> Self {
        let (mode, traffic, links) = (Mode::Pass, Traffic::default(), BTreeMap::new());
        let now = Now { mode, listens: true, closing: false, traffic, links };
        Self {
            gate: RwLock::new(mode),
            now: Mutex::new(now),
            changed: Condvar::new(),
            counts: counts.into(),
        }
    }

    pub(super) fn set(&self, mode: Mode) {
        let mut gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        *gate = mode;
        self.change(|now| now.mode = mode);
    }

    pub(super) fn close(&self) {
        self.change(|now| now.closing = true);
    }

    /// Does something with the mode, which does not change meanwhile.
    pub(super) fn under_mode<T>(&self, act: impl FnOnce(Mode) -> T) -> T {
        act(*self.gate.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn change<T>(&self, act: impl FnOnce(&mut Now) -> T) -> T {
        let done = act(&mut self.now());
        self.changed.notify_all();
        done
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.now().traffic
    }

    /// Adds a link, whose number it returns; `None` if the proxy has come to its end.
    pub(super) fn add(&self, link: &Arc<Link>) -> Option<u64> {
        self.change(|now| {
            if now.closing {
                return None;
            }
            now.traffic.connections += 1;
            now.traffic.open += 1;
            now.links.insert(now.traffic.connections, Arc::downgrade(link));
            Some(now.traffic.connections)
        })
    }

    /// Forgets a link whose sockets are closed.
    pub(super) fn remove(&self, id: u64) {
        self.change(|now| {
            now.traffic.open -= 1;
            now.links.remove(&id)
        });
    }

    /// Cuts every link; the number of the last that was made.
    pub(super) fn cut_all(&self) -> u64 {
        let (links, last) = {
            let now = self.now();
            let links: Vec<Arc<Link>> = now.links.values().filter_map(Weak::upgrade).collect();
            (links, now.traffic.connections)
        };
        for link in links {
            link.cut();
        }
        // Wakes the threads that wait for a time or a mode, to check whether their link is cut.
        // Under the lock, so that no thread misses it between its check and its wait.
        self.change(|_| last)
    }

    /// Waits until something is so.
    pub(super) fn wait(&self, limit: Duration, is_so: impl Fn(&Now) -> bool) -> Result<()> {
        self.wait_for_ever_or(limit, is_so).then_some(()).ok_or_else(|| {
            Error::new(format!("the proxy did not follow within {} s", limit.as_secs()))
        })
    }

    /// Waits until something is so, or the time has passed; whether it is so.
    pub(super) fn wait_for_ever_or(&self, limit: Duration, is_so: impl Fn(&Now) -> bool) -> bool {
        let deadline = Deadline::after(limit);
        let mut now = self.now();
        while !is_so(&now) {
            if deadline.has_passed() {
                return false;
            }
            let woken = self.changed.wait_timeout(now, deadline.left());
            now = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
