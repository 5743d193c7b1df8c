//! The combiner under the loom model checker: every interleaving of its critical sections.
//!
//! The files of the combiner are compiled a second time here, with the mutexes, condition variables
//! and atomics of loom in the place of [`super::super::sync`]. So the code that is checked is the
//! code that ships. A file that is new has to be named here as well, or the others do not compile.

#![allow(clippy::duplicate_mod, reason = "the same files, with other primitives")]
#![allow(
    dead_code,
    unfulfilled_lint_expectations,
    unreachable_pub,
    unused_imports,
    reason = "what others use is public there; the scenarios use a part of it"
)]

#[path = "../../combiner.rs"]
mod combiner;
#[path = "../../durations.rs"]
mod durations;
#[path = "../../fair.rs"]
mod fair;
#[path = "../../gate.rs"]
mod gate;
#[path = "../../key_queues.rs"]
mod key_queues;
#[path = "../../lead.rs"]
mod lead;
#[path = "../../pending.rs"]
mod pending;
#[path = "../../permit.rs"]
mod permit;
#[path = "../../queue.rs"]
mod queue;
#[path = "../../round.rs"]
mod round;
mod scenarios;
mod sync;
#[path = "../../waiter.rs"]
mod waiter;
#[path = "../../worker.rs"]
mod worker;

use combiner::{Combiner, Limits, Reply, Work};
use key_queues::KeyQueues;
use lead::Lead;
use pending::{Led, Pending, collect};
use permit::Permit;
use round::{Queues, Round};
use worker::{Wakeup, Worker};
