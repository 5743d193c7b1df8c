//! The state that the threads of a proxy share: the mode, the open connections, and the counters.
//!
//! A thread delivers bytes under a read lock of the mode, and a change of the mode takes the write
//! lock: once the mode has changed, no byte is delivered under the old one.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use super::connection::Connection;
use super::{Mode, Traffic};
use crate::error::{Error, Result};
use crate::wait::Deadline;

#[derive(Debug)]
pub(super) struct ProxyState {
    mode: RwLock<Mode>,
    now: Mutex<Current>,
    changed: Condvar,
    /// The text that is counted; none if it is empty.
    pub(super) counts: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Current {
    pub(super) mode: Mode,
    /// Whether the acceptor has a socket on which it listens.
    pub(super) listens: bool,
    /// Whether the proxy is closed.
    pub(super) closing: bool,
    pub(super) traffic: Traffic,
    /// Open connections, numbered from 1.
    pub(super) open: BTreeMap<u64, Weak<Connection>>,
}

impl ProxyState {
    pub(super) fn new(counts: &str) -> Self {
        let (mode, traffic, open) = (Mode::Pass, Traffic::default(), BTreeMap::new());
        let now = Current { mode, listens: true, closing: false, traffic, open };
        Self {
            mode: RwLock::new(mode),
            now: Mutex::new(now),
            changed: Condvar::new(),
            counts: counts.into(),
        }
    }

    pub(super) fn set(&self, mode: Mode) {
        let mut current = self.mode.write().unwrap_or_else(PoisonError::into_inner);
        *current = mode;
        self.change(|now| now.mode = mode);
    }

    pub(super) fn close(&self) {
        self.change(|now| now.closing = true);
    }

    /// Runs a function with the mode, which does not change meanwhile.
    pub(super) fn with_mode<T>(&self, act: impl FnOnce(Mode) -> T) -> T {
        act(*self.mode.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn change<T>(&self, act: impl FnOnce(&mut Current) -> T) -> T {
        let done = act(&mut self.now());
        self.changed.notify_all();
        done
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.now().traffic
    }

    /// Adds a connection; its number, or `None` if the proxy is closed.
    pub(super) fn add(&self, connection: &Arc<Connection>) -> Option<u64> {
        self.change(|now| {
            if now.closing {
                return None;
            }
            now.traffic.connections += 1;
            now.traffic.open += 1;
            now.open.insert(now.traffic.connections, Arc::downgrade(connection));
            Some(now.traffic.connections)
        })
    }

    /// Removes a connection whose sockets are closed.
    pub(super) fn remove(&self, id: u64) {
        self.change(|now| {
            now.traffic.open -= 1;
            now.open.remove(&id)
        });
    }

    /// Resets every connection; the number of the newest.
    pub(super) fn reset_all(&self) -> u64 {
        let (open, last) = {
            let now = self.now();
            let open: Vec<Arc<Connection>> = now.open.values().filter_map(Weak::upgrade).collect();
            (open, now.traffic.connections)
        };
        for connection in open {
            connection.reset();
        }
        // Wakes the threads that wait for a time or a mode, to check whether their connection is
        // reset. Under the lock, so that no thread misses it between its check and its wait.
        self.change(|_| last)
    }

    /// Waits until a condition holds.
    pub(super) fn wait(&self, limit: Duration, holds: impl Fn(&Current) -> bool) -> Result<()> {
        self.wait_for(limit, holds).then_some(()).ok_or_else(|| {
            Error::new(format!(
                "the threads of the proxy did not react within {} s",
                limit.as_secs()
            ))
        })
    }

    /// Waits until a condition holds, or the time has passed; whether it holds.
    pub(super) fn wait_for(&self, limit: Duration, holds: impl Fn(&Current) -> bool) -> bool {
        let deadline = Deadline::after(limit);
        let mut now = self.now();
        while !holds(&now) {
            if deadline.has_passed() {
                return false;
            }
            let woken = self.changed.wait_timeout(now, deadline.left());
            now = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn now(&self) -> MutexGuard<'_, Current> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
