//! Callers wait, a leader runs one round for all waiters, each waiter gets its answer.
//!
//! Every store that shares a round trip between callers uses this module and brings only "run this
//! round". The guarantees are made here, once:
//!
//! - **Each waiter is answered exactly once**, whatever ends: its round, the leader, the worker,
//!   the store.
//! - **A waiter that is cancelled before its round was sent is not charged.** [`Round::mark_sent`]
//!   is the point: it drops cancelled waiters and marks the others, atomically for each. Mark a
//!   round before what it sends is made from its jobs.
//! - **A cancelled leader affects no other waiter.** A round that a caller drives is handed over to
//!   another member. A round that is dropped before it was sent goes back to the front of its
//!   queue; one that was sent answers its members that the outcome is unknown.
//! - **A round is bounded**, and so is a queue ([`Limits`]). Where more wait than a round takes,
//!   [`Round::keep_fairly`] shares its places between policies and keys.
//! - **Contention and a silent backend differ by facts.** Each queue counts its answered rounds,
//!   and each waiter records in its `CallContext` whether it was sent, whether it lost a race,
//!   and whether rounds were answered since it joined.
//!
//! # Who leads
//! | leader | how |
//! |---|---|
//! | a caller alone, without a lock | [`Combiner::try_enter`] |
//! | the first waiter, or a task that it spawns | [`Pending::answer_or_lead`] |
//! | a task per queue | [`Combiner::worker`], [`Worker::next_round`] |
//! | the first waiter of each of its keys | [`KeyQueues::submit`], [`Pending::answer_or_lead`] |
//! | a thread per queue | [`Combiner::worker`], [`Worker::next_round_blocking`] |
//!
//! ```
//! use tollgate_core::combine::{Combiner, Limits};
//! use tollgate_core::store::CallContext;
//! use tollgate_core::Result;
//!
//! let limits = Limits { waiting: 10_000, round: 1_000, concurrent: 1 };
//! let combiner = Combiner::<u64, Result<u64>>::new(1, limits);
//! let worker = combiner.worker(0);
//! // Two callers wait. Each of them would await `answer()`.
//! let first = combiner.submit(0, 3, CallContext::at(0))?;
//! let second = combiner.submit(0, 4, CallContext::at(0))?;
//! // A thread or a task decides both in one round.
//! let mut round = worker.try_next_round().unwrap();
//! round.mark_sent();
//! let answers: Vec<Result<u64>> = round.jobs().map(|job| Ok(job * job)).collect();
//! round.finish(answers);
//! # drop((first, second));
//! # Ok::<(), tollgate_core::Error>(())
//! ```

mod combiner;
pub(crate) mod durations;
mod fair;
mod gate;
mod key_queues;
mod lead;
mod pending;
mod permit;
mod queue;
mod round;
mod sync;
#[cfg(test)]
mod tests;
mod waiter;
mod worker;

pub use combiner::{Combiner, Limits, Reply, Work};
pub use key_queues::KeyQueues;
pub use lead::Lead;
pub use pending::{Led, Pending, collect};
pub use permit::Permit;
pub use round::{Queues, Round};
pub use worker::{Wakeup, Worker};
