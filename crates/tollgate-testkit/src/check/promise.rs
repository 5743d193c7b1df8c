//! Checks the promises of a decision: a caller that waits as long as it says is allowed, and not
//! one millisecond earlier.

use core::fmt::Display;

use tollgate_core::algorithm::{Step, Write};
use tollgate_core::{Cost, Decision, MICROS_MAX, Now, Rule, Verdict};

use crate::model::Kind;
use crate::trace::{Event, Mix, Trace};

/// Follows a seeded trace and keeps every promise of every decision: who waits `retry_after` gets
/// in, and not a millisecond earlier; the key is fresh at `reset_at`, and not a millisecond
/// earlier. Returns the denials that were waited for.
///
/// # Panics
/// When the property does not hold, naming the seed.
#[must_use = "a run that denied nothing proves little"]
pub fn promises_are_kept(kind: Kind, seed: u64, steps: u64) -> u64 {
    let mut trace = Trace::new(kind, seed, Mix { changes: &[], settles: false, ..Mix::ALGORITHM });
    let (mut rule, mut words, mut waited) = (None, Vec::new(), 0);
    for step in 0..steps {
        match (trace.next_event(), &rule) {
            (Event::Fresh(quota), _) => {
                rule = quota.rule().ok();
                words.clear();
            }
            (Event::Check(now, cost), Some(rule)) => {
                let decided: Step = rule.step(&words, now, cost);
                let context = format!("step {step} of seed {seed:#x} under {rule:?}");
                is_kept(rule, &words, (now, cost), &decided, &context);
                waited += u64::from(decided.decision.verdict == Verdict::Denied);
                trace.observe(now, cost, &decided.decision);
                if let Some(write) = decided.write {
                    is_fresh_at(rule, &write, &context);
                    words = write.words.to_vec();
                }
            }
            _ => {}
        }
    }
    waited
}

/// Checks `retry_after` and `reset_at` of a step that was taken on `words`.
pub(super) fn is_kept(
    rule: &Rule,
    words: &[u64],
    asked: (Now, Cost),
    step: &Step,
    context: &dyn Display,
) {
    let (now, cost) = asked;
    if step.decision.verdict == Verdict::Denied {
        retry_after_is_tight(rule, words, (now, cost), &step.decision, context);
    }
    let after = step.write.as_ref().map_or(words, |write| &write.words);
    if step.decision.remaining < step.decision.limit {
        reset_at_is_tight(rule, after, &step.decision, context);
    }
}

/// If no other request spends, the request passes after `retry_after_ms`, and not one millisecond
/// earlier.
fn retry_after_is_tight(
    rule: &Rule,
    words: &[u64],
    (now, cost): (Now, Cost),
    decision: &Decision,
    context: &dyn Display,
) {
    let Some(wait) = decision.retry_after_ms else {
        return;
    };
    assert!(wait >= 1, "a denial without a wait; {context}");
    let after = |ms: u64| now.reading() + ms * 1_000;
    if after(wait) < MICROS_MAX {
        let then = Now::at(after(wait)).not_before(now.effective());
        let allowed = rule.step(words, then, cost).decision.is_allowed();
        assert!(allowed, "still not allowed after {wait} ms; {context}");
    }
    if after(wait - 1) < MICROS_MAX {
        let early = Now::at(after(wait - 1)).not_before(now.effective());
        let allowed = rule.step(words, early, cost).decision.is_allowed();
        assert!(!allowed, "allowed before {wait} ms; {context}");
    }
}

/// The key means the same as a fresh one at `reset_at_ms`, and not one millisecond earlier.
fn reset_at_is_tight(rule: &Rule, words: &[u64], decision: &Decision, context: &dyn Display) {
    let reset = decision.reset_at_ms;
    if reset * 1_000 + 1 >= MICROS_MAX {
        return;
    }
    let at = |micros: u64| rule.peek(words, Now::at(micros), Cost::ONE);
    let (then, later) = (at(reset * 1_000), at(reset * 1_000 + 1));
    assert_eq!(then.remaining, then.limit, "not full at reset_at; {context}");
    assert_eq!(later.reset_at_ms, reset + 1, "not fresh after reset_at; {context}");
    let early = at((reset - 1) * 1_000);
    assert_eq!(early.reset_at_ms, reset, "fresh before reset_at; {context}");
}

/// From `fresh_at` on, the words decide as no words do: a store may forget them.
pub(super) fn is_fresh_at(rule: &Rule, write: &Write, context: &dyn Display) {
    if write.fresh_at >= MICROS_MAX {
        return;
    }
    let now = Now::at(write.fresh_at);
    let most = Cost::new(rule.ceiling().min(Cost::MAX.get())).unwrap_or(Cost::ONE);
    for cost in [Cost::ONE, most] {
        let (kept, forgotten) = (rule.step(&write.words, now, cost), rule.step(&[], now, cost));
        assert_eq!(kept, forgotten, "not fresh at fresh_at; {context}");
    }
}
