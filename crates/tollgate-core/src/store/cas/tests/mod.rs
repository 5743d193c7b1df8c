//! The adapter over a real versioned table in memory, under a scheduler that is seeded and
//! deterministic: every interleaving can be replayed from the seed in its message.

mod admit;
mod backend;
mod batch;
mod combining;
mod conflicts;
mod deadlines;
mod drops;
mod recall;
mod request_ids;
mod round;
mod sim;

use core::time::Duration;

use super::super::{
    CallContext, CallFacts, Evidence, Jitter, Retries, Store, admit_many, plan, slots_of,
};
use super::{Cas, Versioned};
use crate::algorithm::{Anchor, FixedWindow};
use crate::charge::{Admission, Charge};
use crate::clock::ManualClock;
use crate::decision::Decision;
use crate::error::{Code, Result};
use crate::limit::Limit;
use crate::quota::Quota;
use crate::time::Micros;

pub(super) use backend::Table;
pub(crate) use sim::{Random, Sim, block_on};

/// Well inside the range of instants, and a whole number of windows.
const START: Micros = 1_800_000_000_000_000;
const HOUR: Micros = 3_600_000_000;
const NOW: CallContext<'static> = CallContext::at(START);

/// `limit` units an hour, counted one by one: the stored words are `[start, count]`.
fn per_hour(policy: &str, limit: u64) -> Limit {
    let window = FixedWindow::new(Quota::per_hour(limit), Anchor::Epoch).unwrap();
    Limit::new(policy, window).unwrap()
}

/// An adapter whose clock stands still and whose jitter is the same in every run.
fn cas<V: Versioned + 'static>(backend: V, clock: &ManualClock) -> Cas<V> {
    Cas::with_jitter(backend, clock.clone(), Jitter::seeded(1))
}

/// The decision that an outcome is the evidence of.
fn decision(charge: &Charge<'_>, outcome: &Evidence) -> Decision {
    let mut decisions = decisions(core::slice::from_ref(charge), outcome);
    decisions.remove(0)
}

fn decisions(charges: &[Charge<'_>], outcome: &Evidence) -> Vec<Decision> {
    let (slots, keys) = slots_of(charges);
    let first = |slot| slots.iter().position(|own| *own == slot).unwrap();
    let states: Vec<_> = (0..keys.len()).map(|slot| outcome.before[first(slot)].clone()).collect();
    plan(charges, &slots, &states, outcome.now).unwrap().decisions
}

/// One check: whether it passed.
async fn check<V: Versioned + 'static>(cas: &Cas<V>, charge: Charge<'_>) -> Result<bool> {
    let outcome = cas.admit(&Admission::of(&[charge]), NOW).await?;
    Ok(decision(&charge, &outcome).is_allowed())
}

/// Units counted on the key of a charge.
fn stored<V: Versioned + 'static>(cas: &Cas<V>, charge: &Charge<'_>) -> u64 {
    let loaded = block_on(cas.load(&[*charge], NOW)).unwrap();
    loaded.states[0].as_ref().map_or(0, |state| state.words[1])
}

fn code<T>(result: Result<T>) -> Option<Code> {
    result.err().map(|error| error.code())
}

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}
