//! The part of the checklist for production (`docs/operating.md`) that a configuration shows:
//! warnings for what is wrong, advice for what to reconsider.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate::OutageMode;
use tollgate_server::Config;
use tollgate_server::policy::{DEFAULT_POLICY, Policy};

/// The longest deadline without advice.
const DEADLINE_MAX: Duration = Duration::from_millis(100);
/// The longest round trip without advice: two and more make one decision.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(25);
/// The prefix of keys when none is set.
const DEFAULT_PREFIX: &str = "tollgate";

/// The result.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Errors to fix before production.
    pub(super) warnings: Vec<String>,
    /// Choices to reconsider.
    pub(super) advice: Vec<String>,
}

/// Examines a configuration whose store answers in `round_trip`.
pub(super) fn examine(config: &Config, round_trip: Duration, in_process: bool) -> Findings {
    let mut found = Findings::default();
    let deadline = config.failure.deadline;
    if round_trip.saturating_mul(2) > deadline {
        found.warnings.push(format!(
            "deadline: {deadline:?} is less than two round trips of {round_trip:?}: ordinary \
             calls would count as outages"
        ));
    } else if deadline > DEADLINE_MAX {
        found.advice.push(format!(
            "deadline: {deadline:?} is the wait of every request when the store hangs; 100ms is \
             usual"
        ));
    }
    if round_trip > ROUND_TRIP_MAX {
        found.advice.push(format!("store: a round trip takes {round_trip:?}; move it closer"));
    }
    if config.http.is_none() {
        found
            .advice
            .push("http is off, and with it /metrics: an outage raises no alert".to_owned());
    }
    // The built-in bucket alone is for trials.
    let written: Vec<&Policy> = config.policies.iter().collect();
    let only_default = matches!(written[..], [policy] if *policy.name() == DEFAULT_POLICY);
    if in_process {
        found.advice.push(
            "store: limits in memory are per process: each server grants them in full".to_owned(),
        );
    } else if !only_default {
        advise(&written, &mut found.advice);
    }
    found
}

fn advise(policies: &[&Policy], advice: &mut Vec<String>) {
    let limits = || policies.iter().flat_map(|policy| policy.limits());
    let named = |chosen: &dyn Fn(&Policy) -> bool| {
        let chosen = policies.iter().filter(|policy| chosen(policy));
        let names: BTreeSet<String> = chosen.map(|policy| policy.name().to_string()).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    if limits().all(|limit| limit.outage_mode() == OutageMode::Open) {
        let message = "on_outage: every policy admits everything without the store; choose closed \
                       for what protects logins and money";
        advice.push(message.to_owned());
    }
    let shared = named(&|policy| policy.limits().any(|limit| *limit.prefix() == DEFAULT_PREFIX));
    if !shared.is_empty() {
        advice.push(format!(
            "prefix: {shared} would share keys with another environment on this store"
        ));
    }
    if policies.iter().all(|policy| policy.limits().count() == 1) {
        let message = "limits: no policy has several; a short and a long window, or an address \
                       and a user, stop more";
        advice.push(message.to_owned());
    }
    let unbounded = named(&|policy| !policy.hashes_keys());
    if !unbounded.is_empty() {
        advice.push(format!(
            "hash_keys: the number of keys of {unbounded} is not bounded, and the store holds \
             them in plain text"
        ));
    }
    let shadows = named(&Policy::is_shadow);
    if !shadows.is_empty() {
        advice.push(format!("shadow: {shadows} never denies"));
    }
}
