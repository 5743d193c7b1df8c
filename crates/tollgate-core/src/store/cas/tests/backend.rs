//! A versioned table in memory: a genuine backend, which yields where a network would.

use core::future::poll_fn;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Poll;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use super::super::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};
use crate::clock::{Clock, ManualClock};
use crate::error::{Code, Error, Result};
use crate::store::CallLimit;
use crate::time::Micros;

/// What happens to the next swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It never arrives.
    Lost,
    /// It is applied, and its answer is lost.
    AnswerLost,
    /// It never left this process, and that is known.
    NotSent,
}

/// What is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    Everything,
    Swaps,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) text: String,
    pub(crate) version: u64,
    pub(crate) keep_until: Micros,
}

#[derive(Debug)]
pub(crate) struct Table {
    capability: VersionedCapability,
    rows: Mutex<BTreeMap<String, Row>>,
    versions: AtomicUsize,
    clock: Option<ManualClock>,
    call_limit: Option<CallLimit>,
    pub(crate) fault: Mutex<Option<Fault>>,
    /// Lets the next reads fail.
    pub(crate) failing_reads: AtomicUsize,
    /// From now on nothing is answered, or no swap is.
    pub(crate) silence: Mutex<Option<Silence>>,
    /// Lets the next swaps lose to a writer that changes nothing but the version.
    pub(crate) rivals: AtomicUsize,
    pub(crate) reads: AtomicUsize,
    pub(crate) swaps_sent: AtomicUsize,
    pub(crate) swaps_answered: AtomicUsize,
    pub(crate) swaps_won: AtomicUsize,
    pub(crate) closed: AtomicUsize,
}

impl Table {
    pub(crate) fn new(capability: VersionedCapability) -> Self {
        Self {
            capability,
            rows: Mutex::default(),
            versions: AtomicUsize::new(0),
            clock: None,
            call_limit: None,
            fault: Mutex::new(None),
            failing_reads: AtomicUsize::new(0),
            silence: Mutex::new(None),
            rivals: AtomicUsize::new(0),
            reads: AtomicUsize::new(0),
            swaps_sent: AtomicUsize::new(0),
            swaps_answered: AtomicUsize::new(0),
            swaps_won: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
        }
    }

    pub(crate) fn multi_key() -> Self {
        Self::new(VersionedCapability::multi_key(100))
    }

    pub(crate) fn single_key() -> Self {
        Self::new(VersionedCapability::single_key())
    }

    pub(crate) fn with_clock(mut self, clock: &ManualClock) -> Self {
        self.capability = self.capability.with_own_clock();
        self.clock = Some(clock.clone());
        self
    }

    pub(crate) fn with_call_limit(mut self, calls: usize) -> Self {
        self.call_limit = Some(CallLimit::new(calls));
        self
    }

    pub(crate) fn rows(&self) -> MutexGuard<'_, BTreeMap<String, Row>> {
        self.rows.lock().unwrap()
    }

    /// Puts a text in place of a value, as another program might.
    pub(crate) fn overwrite(&self, key: &str, text: &str) {
        let row =
            Row { text: text.to_owned(), version: self.next_version(), keep_until: Micros::MAX };
        self.rows().insert(key.to_owned(), row);
    }

    pub(crate) fn count(counter: &AtomicUsize) -> usize {
        counter.load(Ordering::SeqCst)
    }

    /// Deletes what may be deleted.
    pub(crate) fn sweep(&self, now: Micros) {
        self.rows().retain(|_, row| row.keep_until > now);
    }

    async fn hang_if(&self, is_meant: fn(Silence) -> bool) {
        let silence = *self.silence.lock().unwrap();
        if silence.is_some_and(is_meant) {
            core::future::pending::<()>().await;
        }
    }

    fn entries(&self, keys: &[&str]) -> Vec<Option<Entry>> {
        let rows = self.rows();
        let entry = |key: &&str| {
            rows.get(*key)
                .map(|row| Entry { text: row.text.clone(), version: Version::Number(row.version) })
        };
        keys.iter().map(entry).collect()
    }

    fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::SeqCst) as u64
    }

    fn apply(&self, writes: &[Swap<'_>]) -> bool {
        let distinct: BTreeSet<&str> = writes.iter().map(|write| write.key).collect();
        assert_eq!(distinct.len(), writes.len(), "a key is written twice");
        assert!(!writes.is_empty(), "an empty swap was sent");
        assert!(
            writes.len() <= self.capability.keys_per_swap as usize,
            "more keys than the backend can swap"
        );
        let mut rows = self.rows();
        if take(&self.rivals) {
            for write in writes {
                if let Some(row) = rows.get_mut(write.key) {
                    row.version = self.next_version();
                }
            }
            return false;
        }
        let is_unchanged = |write: &Swap<'_>| {
            let found = rows.get(write.key).map(|row| Version::Number(row.version));
            found.as_ref() == write.expect
        };
        if !writes.iter().all(is_unchanged) {
            return false;
        }
        for write in writes {
            let row = Row {
                text: write.value.to_owned(),
                version: self.next_version(),
                keep_until: write.keep_until,
            };
            rows.insert(write.key.to_owned(), row);
        }
        self.swaps_won.fetch_add(1, Ordering::SeqCst);
        true
    }
}

/// Takes one of what is left of a counter.
fn take(counter: &AtomicUsize) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Versioned for Table {
    fn capability(&self) -> VersionedCapability {
        self.capability
    }

    fn call_limit(&self) -> Option<&CallLimit> {
        self.call_limit.as_ref()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        let distinct: BTreeSet<&&str> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "a key is read twice");
        self.reads.fetch_add(1, Ordering::SeqCst);
        yield_once().await;
        self.hang_if(|silence| silence == Silence::Everything).await;
        if take(&self.failing_reads) {
            return Err(Error::new(Code::StoreUnavailable, "the read failed"));
        }
        let entries = self.entries(keys);
        let clock = self.clock.as_ref().map(ManualClock::now);
        yield_once().await;
        Ok(Snapshot { entries, clock })
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        self.swaps_sent.fetch_add(1, Ordering::SeqCst);
        yield_once().await;
        self.hang_if(|_| true).await;
        let fault = self.fault.lock().unwrap().take();
        let answer = match fault {
            None => Ok(self.apply(writes)),
            Some(Fault::Lost) => Err("the swap was lost"),
            Some(Fault::NotSent) => {
                return Err(Error::new(Code::Timeout, "there is no connection").not_sent());
            }
            Some(Fault::AnswerLost) => {
                self.apply(writes);
                Err("the answer was lost")
            }
        };
        yield_once().await;
        self.swaps_answered.fetch_add(1, Ordering::SeqCst);
        answer.map_err(|message| Error::new(Code::Timeout, message))
    }

    async fn close(&self) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

/// Comes back at the next poll, as the answer of a network would.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
