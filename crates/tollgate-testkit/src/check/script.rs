//! The step of an algorithm as a script against its step in Rust, on a store that runs scripts.
#![expect(clippy::panic, reason = "a check panics when it does not hold: that is its purpose")]

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Cost, Limit, Micros, Now, Rule, State};

use crate::derive::decisions_of;
use crate::rng::Rng;

/// Charges one key after another at seeded instants and costs, and compares every decision and
/// every state on the store with what the step in Rust says. For authors of an algorithm with a
/// script: run it on a Redis.
///
/// # Panics
/// When they differ, with the seed and the step; or when the algorithm has no script.
pub async fn script_agrees<S: Store>(store: &S, rule: &Rule, seed: u64, steps: u64) {
    assert!(rule.scripted_step().is_some(), "{} has no script", rule.name());
    let mut rng = Rng::new(seed);
    let mut now: Micros = 1_700_000_000_000_000;
    let mut state: Option<State> = None;
    let mut limit = limit_of(rule, seed, 0);
    for step in 0..steps {
        if step % 50 == 49 {
            limit = limit_of(rule, seed, step);
            state = None;
        }
        let leap = rng.below(rule.horizon().max(2));
        now = match rng.below(4) {
            0 => now,
            1 => now + leap / 50,
            2 => now + leap,
            _ => now.saturating_sub(leap / 100),
        };
        let cost = Cost::new(1 + rng.below(rule.ceiling().min(1 << 31) + 1));
        let Ok(cost) = cost else { continue };
        let charges = [limit.charge("script").cost(cost)];
        let admission = Admission::of(&charges);
        let context = format!("{} differs at step {step} of seed {seed}", rule.name());
        let outcome = store.admit(&admission, CallContext::at(now)).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("{context}: {error}"));
        let told = decisions_of(&admission, &outcome);
        let told = told.unwrap_or_else(|error| panic!("{context}: {error}"));
        let words = state.as_ref().map_or(&[][..], |state| &state.words);
        let own = rule.step(words, Now::at(now), cost);
        assert_eq!(told.decisions.first(), Some(&own.decision), "{context}");
        if let Some(write) = own.write {
            state = Some(State::new(rule.quota_id(), write.words));
        }
        let loaded = store.load(&charges, CallContext::at(now)).await;
        let loaded = loaded.unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(loaded.states.first(), Some(&state), "{context}");
    }
}

fn limit_of(rule: &Rule, seed: u64, step: u64) -> Limit {
    let limit = Limit::with_rule("script", rule.clone());
    let prefix = format!("script-{seed}-{step}-{}", std::process::id());
    limit
        .and_then(|limit| limit.with_prefix(&prefix))
        .unwrap_or_else(|error| panic!("the names are accepted: {error}"))
}
