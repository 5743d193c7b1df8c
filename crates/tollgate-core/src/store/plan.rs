//! One admission over loaded states, purely: shared by every store that runs steps in Rust, and by
//! the limiter, which derives the decisions of scripted stores from their evidence.

use crate::algorithm::{Step, Write, adopt};
use crate::charge::{Act, Charge};
use crate::cost::Cost;
use crate::decision::{Decision, Verdict};
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::state::State;
use crate::time::Now;

/// What an admission decided, and what is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The decision of each charge. Unless all are allowed, their numbers are uncharged.
    pub decisions: Vec<Decision>,
    /// Units given back by each refund; 0 for other charges.
    pub refunded: Vec<u64>,
    /// The last write of each slot, in the order of the slots. A denied admission writes only what
    /// a changed quota made it carry over.
    pub writes: Vec<SlotWrite>,
    /// Whether every charge was allowed.
    pub admitted: bool,
}

/// The next state of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotWrite {
    /// Which of the loaded states it replaces.
    pub slot: usize,
    /// The state to keep.
    pub state: State,
    /// From this instant on the state means the same as none.
    pub fresh_at: u64,
}

/// Maps charges to slots, so that two charges on one key share one: the slot of each charge, and
/// the key of each slot.
#[must_use]
pub fn slots_of<'a>(charges: &[Charge<'a>]) -> (Vec<usize>, Vec<Key<'a>>) {
    let mut keys: Vec<Key<'a>> = Vec::with_capacity(charges.len());
    let slots = charges
        .iter()
        .map(|charge| {
            let key = charge.key();
            keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            })
        })
        .collect();
    (slots, keys)
}

/// Runs the steps of one admission in order over the states of its slots.
///
/// Two charges on one key see each other. If any is not allowed, none is charged and every decision
/// reports uncharged numbers.
///
/// # Errors
/// `corrupt_state` when a state cannot be read; then nothing is to be written.
pub fn plan(
    charges: &[Charge<'_>],
    slots: &[usize],
    states: &[Option<State>],
    now: Now,
) -> Result<Plan> {
    let mut run = Run::new(states);
    let mut decisions = Vec::with_capacity(charges.len());
    let mut refunded = Vec::with_capacity(charges.len());
    for (charge, &slot) in charges.iter().zip(slots) {
        let (decision, units) = run.apply(charge, slot, now)?;
        decisions.push(decision);
        refunded.push(units);
    }
    let admitted = decisions.iter().all(Decision::is_allowed);
    if !admitted {
        for ((charge, &slot), decision) in charges.iter().zip(slots).zip(&mut decisions) {
            run.uncharge(charge, slot, now, decision);
        }
        refunded.fill(0);
    }
    Ok(Plan { decisions, refunded, writes: run.writes(admitted), admitted })
}

/// A slot while an admission runs over it.
struct Slot<'a> {
    original: Option<&'a State>,
    /// The state before any charge, if a changed quota made it carry over.
    carried: Option<SlotWrite>,
    /// The newest state, if it differs from the original.
    written: Option<SlotWrite>,
    /// Units taken so far, to see that a sum can never be granted.
    taken: u64,
}

impl Slot<'_> {
    fn current(&self) -> Option<&State> {
        self.written.as_ref().map(|written| &written.state).or(self.original)
    }

    fn uncharged(&self) -> Option<&State> {
        self.carried.as_ref().map(|carried| &carried.state).or(self.original)
    }
}

struct Run<'a> {
    slots: Vec<Slot<'a>>,
}

impl<'a> Run<'a> {
    fn new(states: &'a [Option<State>]) -> Self {
        let fresh = |state: &'a Option<State>| Slot {
            original: state.as_ref(),
            carried: None,
            written: None,
            taken: 0,
        };
        Self { slots: states.iter().map(fresh).collect() }
    }

    fn apply(&mut self, charge: &Charge<'_>, index: usize, now: Now) -> Result<(Decision, u64)> {
        let slot = self.slots.get_mut(index).ok_or_else(|| {
            Error::new(Code::CorruptState, "a store returned fewer states than keys")
        })?;
        let rule = charge.rule();
        let keep = |write: Write| SlotWrite {
            slot: index,
            state: State { shape: rule.shape(), words: write.words },
            fresh_at: write.fresh_at,
        };
        if let Some(state) = slot.current()
            && let Some(write) = adopt(rule, state, now)?
        {
            let carried = keep(write);
            slot.carried.get_or_insert_with(|| carried.clone());
            slot.written = Some(carried);
        }
        let (decision, units, write) = match charge.act {
            Act::Take => slot.take(charge, now),
            Act::Refund(receipt) => {
                let words = words_of(slot.current());
                let refund = rule.refund(words, now, charge.cost, receipt);
                let after = refund.write.as_ref().map_or(words, |write| &write.words);
                (standing(charge, after, now), refund.units, refund.write)
            }
        };
        if let Some(write) = write {
            slot.written = Some(keep(write));
        }
        Ok((decision, units))
    }

    /// Puts uncharged numbers into the decision of a charge whose admission was denied.
    fn uncharge(&self, charge: &Charge<'_>, index: usize, now: Now, decision: &mut Decision) {
        let words = words_of(self.slots.get(index).and_then(Slot::uncharged));
        let uncharged = match charge.act {
            Act::Take => charge.rule().peek(words, now, charge.cost),
            Act::Refund(_) => standing(charge, words, now),
        };
        decision.remaining = uncharged.remaining;
        decision.reset_at_ms = uncharged.reset_at_ms;
        decision.delay_ms = uncharged.delay_ms;
    }

    fn writes(self, admitted: bool) -> Vec<SlotWrite> {
        let last = |slot: Slot<'a>| if admitted { slot.written } else { slot.carried };
        self.slots.into_iter().filter_map(last).collect()
    }
}

impl Slot<'_> {
    fn take(&mut self, charge: &Charge<'_>, now: Now) -> (Decision, u64, Option<Write>) {
        let rule = charge.rule();
        self.taken = self.taken.saturating_add(charge.cost.get());
        let Step { mut decision, write } = rule.step(words_of(self.current()), now, charge.cost);
        if decision.verdict == Verdict::Denied && self.taken > charge.cost.get() {
            // What counts is when all charges on this key together are granted, if ever.
            let together = Cost::new(self.taken.min(Cost::MAX.get())).unwrap_or(charge.cost);
            let look = rule.peek(words_of(self.uncharged()), now, together);
            decision.verdict = look.verdict.or_denied();
            decision.retry_after_ms = look.retry_after_ms.map(|wait| wait.max(1));
        }
        (decision, 0, write)
    }
}

fn words_of(state: Option<&State>) -> &[u64] {
    state.map_or(&[], |state| &state.words)
}

/// How a key stands: always allowed, with the numbers of an uncharged look.
fn standing(charge: &Charge<'_>, words: &[u64], now: Now) -> Decision {
    let look = charge.rule().peek(words, now, Cost::ONE);
    Decision::allowed(look.limit, look.remaining, look.reset_at_ms)
}
