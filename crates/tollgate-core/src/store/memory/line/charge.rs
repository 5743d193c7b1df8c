//! Charges on one line, without the mutex of its shard.

use super::{
    KIND_MASK, KIND_SHIFT, LOCKED, Line, ONE_WORD, SHORT, SHORT_STATE, VERSION, control_of, kind,
    mask, matches, short_words, store_short,
};
use crate::algorithm::PackedSchedule;
use crate::cost::Cost;
use crate::decision::Decision;
use crate::rule::Rule;
use crate::store::memory::atomic_word::AtomicWord;
use crate::store::memory::fill::Fill;
use crate::store::memory::fingerprint::Id;
use crate::time::Now;

/// What became of a charge on a one-word state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::memory) enum Charged {
    /// The words before and after.
    Granted { word: u64, next: u64 },
    /// The word, which stays.
    Refused { word: u64 },
    /// The line belongs to another key, or holds a state of another quota or kind.
    NotHere,
    /// The line is held.
    Held,
    /// Another charge came first.
    Beaten,
}

/// Decides on a state in a line, of one word or short. `None` if the line belongs to another key,
/// or holds a state of another quota or kind.
pub(in crate::store::memory) fn charge<A: AtomicWord>(
    line: &Line<A>,
    id: Id,
    rule: &Rule,
    now: Now,
    cost: Cost,
) -> Option<Decision> {
    let Some(packed) = rule.packed_schedule() else {
        return charge_short(line, id, rule, now, cost);
    };
    match charge_word(line, id, (rule.quota_tag(), packed), now, cost) {
        Charged::Granted { word, next } => Some(packed.granted(word, next, now)),
        Charged::Refused { word } => Some(packed.refused(word, now, cost)),
        Charged::NotHere | Charged::Held | Charged::Beaten => None,
    }
}

/// Charges a one-word state with one compare-and-swap; a denial writes nothing. Waits for the line
/// where it has to.
pub(in crate::store::memory) fn charge_word<A: AtomicWord>(
    line: &Line<A>,
    id: Id,
    tagged: (u64, &PackedSchedule),
    now: Now,
    cost: Cost,
) -> Charged {
    let (mut spins, mut pause) = (0, 0);
    loop {
        match try_charge_word(line, id, tagged, now, cost) {
            Charged::Held => A::wait(&mut spins),
            Charged::Beaten => A::step_back(&mut pause),
            charged => return charged,
        }
    }
}

/// The same without waiting.
#[inline(always)]
pub(in crate::store::memory) fn try_charge_word<A: AtomicWord>(
    line: &Line<A>,
    id: Id,
    (tag, packed): (u64, &PackedSchedule),
    now: Now,
    cost: Cost,
) -> Charged {
    let mask = mask(id, tag);
    let control = line.0[2].load();
    if control & (LOCKED | KIND_MASK << KIND_SHIFT) != ONE_WORD << KIND_SHIFT {
        return if control & LOCKED == 0 { Charged::NotHere } else { Charged::Held };
    }
    if !matches(line, id) || line.0[3].load() != tag {
        return Charged::NotHere;
    }
    let masked = line.0[4].load();
    if line.0[2].load() != control {
        return Charged::Held;
    }
    let word = masked ^ mask;
    match packed.advance(word, now, cost) {
        None => Charged::Refused { word },
        Some(next) if line.0[4].replace(masked, next ^ mask) => Charged::Granted { word, next },
        Some(_) => Charged::Beaten,
    }
}

/// Decides on a short state under the sequence lock; a denial writes nothing. `None` if the line
/// belongs to another key, or holds a state of another quota or kind.
pub(in crate::store::memory) fn charge_short<A: AtomicWord>(
    line: &Line<A>,
    id: Id,
    rule: &Rule,
    now: Now,
    cost: Cost,
) -> Option<Decision> {
    let mut spins = 0;
    loop {
        let control = line.0[2].load();
        if control & LOCKED != 0 {
            A::wait(&mut spins);
            continue;
        }
        if !matches(line, id) {
            return None;
        }
        if kind(control) != SHORT_STATE || line.0[3].load() != rule.quota_tag() {
            return None;
        }
        let words = short_words(line, control);
        if line.0[2].load() != control {
            A::wait(&mut spins);
            continue;
        }
        if words.is_empty() {
            // Nothing is kept: whether that still holds at this instant depends on the floor
            // of the shard.
            return None;
        }
        let step = rule.step(&words, now, cost);
        let Some(write) = step.write else { return Some(step.decision) };
        if write.words.len() > SHORT {
            return None;
        }
        if line.0[2].replace(control, control | LOCKED) {
            let limit = step.decision.limit;
            let fill = Fill::of(limit.saturating_sub(step.decision.remaining), limit);
            store_short(line, write.fresh_at, &write.words);
            let control = control_of(control, SHORT_STATE, fill, write.words.len());
            line.0[2].store(control.wrapping_add(VERSION));
            return Some(step.decision);
        }
    }
}
