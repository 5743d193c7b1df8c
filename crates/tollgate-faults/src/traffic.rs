//! A steady load on a fleet: a call is due at its time, whatever became of earlier ones.
//!
//! The calls take turns among the modes, and between a policy whose keys run out of units and one
//! whose calls have request ids. A call with an id that the store did not decide is made once more
//! by another server, as a client would.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};
use tollgate_core::OutageMode;
use tollgate_testkit::rng::Rng;

use crate::fleet::{Fleet, Kind, MODES, SERVERS, Timed};
use crate::sample::Sample;

/// The time between two calls.
const PERIOD: Duration = Duration::from_micros(1_500);
/// The least time between two calls of one caller: answers without the store may come at once, and
/// would be most of them.
pub(crate) const CALLER_PERIOD: Duration = Duration::from_millis(10);
/// The keys of each policy.
pub(crate) const KEYS: u64 = 4;

/// The first key of [`Keys::Cold`].
const COLD_KEYS: usize = 1_000;

/// One call of the load.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) server: usize,
    pub(crate) mode: OutageMode,
    /// The number of its request id, if it has one.
    pub(crate) id: Option<u64>,
    pub(crate) sample: Sample,
}

/// How callers are spread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys {
    /// All on one key.
    One,
    /// All on one key, each call with a request id.
    OneWithIds,
    /// Each caller on a key of its own.
    Many,
    /// Each call on a key of its own.
    OwnOfCalls,
    /// Each caller on a key of its own that no caller of the others uses.
    Cold,
}

/// The load.
#[derive(Debug)]
pub(crate) struct Traffic {
    fleet: Arc<Fleet>,
    seed: u64,
    is_over: AtomicBool,
    calls: Mutex<Vec<Call>>,
}

impl Traffic {
    pub(crate) fn new(fleet: Arc<Fleet>, seed: u64) -> Self {
        Self { fleet, seed, is_over: AtomicBool::new(false), calls: Mutex::default() }
    }

    /// Begins calls until [`Self::stop`], and waits for the last answer.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut rng = Rng::new(self.seed);
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut calls = JoinSet::new();
        for (number, mode) in (0..).zip(MODES.into_iter().cycle()) {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            ticks.tick().await;
            let id = (number / 3 % 2 == 1).then_some(number);
            let kind = if id.is_some() { Kind::Identified } else { Kind::Counted };
            let key = usize::try_from(rng.below(KEYS)).unwrap_or_default();
            let server = usize::try_from(rng.next_u64() % 3).unwrap_or_default();
            calls.spawn(Arc::clone(&self).call(server, Ask { mode, kind, key, id }));
            while calls.try_join_next().is_some() {}
        }
        calls.join_all().await;
    }

    /// Keeps callers busy for a time: each calls again as soon as it has its answer, under the mode
    /// `open`, for a key with many units.
    pub(crate) async fn run_callers(self: Arc<Self>, callers: usize, keys: Keys, time: Duration) {
        let (end, numbers) = (Instant::now() + time, Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for caller in 0..callers {
            let (traffic, numbers) = (Arc::clone(&self), Arc::clone(&numbers));
            tasks.spawn(async move {
                while Instant::now() < end {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    let (key, id) = match keys {
                        Keys::One => (0, None),
                        Keys::OneWithIds => (0, u64::try_from(number).ok()),
                        Keys::Many => (caller, None),
                        Keys::OwnOfCalls => (number, None),
                        Keys::Cold => (COLD_KEYS + caller, None),
                    };
                    let ask = Ask { mode: OutageMode::Open, kind: Kind::Identified, key, id };
                    let next = Instant::now() + CALLER_PERIOD;
                    Arc::clone(&traffic).call(caller % SERVERS, ask).await;
                    sleep_until(next).await;
                }
            });
        }
        tasks.join_all().await;
    }

    /// Begins no further calls.
    pub(crate) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// All calls so far, in the order of their answers.
    pub(crate) fn take(&self) -> Vec<Call> {
        core::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn call(self: Arc<Self>, server: usize, ask: Ask) {
        let Ask { mode, kind, key, id } = ask;
        let (policy, subject) = (kind.policy(mode), name_of_key(key));
        let name = id.map(name_of_id);
        for server in [server, (server + 1) % SERVERS] {
            let call = self.fleet.acquire_timed(server, &policy, (&subject, name.as_deref()));
            let Timed { sent, took, answer } = call.await;
            let is_done = answer.is_by_store() || id.is_none();
            let sample = Sample { subject: key, begun: sent, took, answer };
            let call = Call { server, mode, id, sample };
            self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
            if is_done {
                return;
            }
        }
    }
}

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
struct Ask {
    mode: OutageMode,
    kind: Kind,
    key: usize,
    id: Option<u64>,
}

/// The text of a key.
pub(crate) fn name_of_key(key: usize) -> String {
    format!("key-{key}")
}

/// The text of a request id.
pub(crate) fn name_of_id(id: u64) -> String {
    format!("id-{id}")
}
