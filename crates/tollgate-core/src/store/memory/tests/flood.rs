//! A flood of new keys must not forgive a throttled key, whatever it costs the newcomers.

use core::time::Duration;

use super::*;
use crate::store::memory::{Bounds, WhenFull};

const LIMIT: u64 = 10;
/// One unit takes six seconds, so that the whole flood passes while the victim is throttled.
const PERIOD: Duration = Duration::from_secs(60);
const NEWCOMERS: usize = 200;
const VICTIMS: usize = 100;

#[derive(Clone, Copy, Debug)]
enum Flood {
    /// Every spoofed key is hit once.
    Cheap,
    /// Every spoofed key is drained.
    Expensive,
}

struct Figures {
    evicted: usize,
    during: usize,
    after: usize,
}

/// Drains the victims, floods the store for a second, and compares each victim with one that no
/// flood ever touched, at many instants until its debt has decayed.
fn flood(max_keys: usize, rule: &Rule, kind: Flood) -> Figures {
    let (flooded, calm, limit) = (store(max_keys), store(1_000), limit_of(rule));
    let victims: Vec<String> = (0..VICTIMS).map(|victim| format!("victim:{victim}")).collect();
    for victim in &victims {
        assert_eq!(drain(&flooded, &limit, victim, T0), LIMIT);
        assert_eq!(drain(&calm, &limit, victim, T0), LIMIT);
    }
    let (spoofed, mut during) = (10 * max_keys, 0);
    for spoof in 0..spoofed {
        let at = T0 + SECOND * spoof as u64 / spoofed as u64;
        let subject = format!("spoofed:{spoof}");
        match kind {
            Flood::Cheap => drop(check(&flooded, &limit, &subject, at)),
            Flood::Expensive => drop(drain(&flooded, &limit, &subject, at)),
        }
        let victim = &victims[spoof % VICTIMS];
        assert!(!admits(&flooded, &limit, victim, at), "{victim} passes after {spoof} keys");
        // Legitimate newcomers in the second half, when the table is long full.
        if spoof >= spoofed / 2 && spoof % (spoofed / 2 / NEWCOMERS) == 0 {
            during += usize::from(admits(&flooded, &limit, &format!("new:{spoof}"), at));
        }
    }
    let evicted = victims.iter().filter(|victim| !is_held(&flooded, &limit.charge(victim)));
    let evicted = evicted.count();
    decay_alike(&flooded, &calm, &limit, &victims);
    let late = |new: &usize| admits(&flooded, &limit, &format!("late:{new}"), T0 + 200 * SECOND);
    Figures { evicted, during, after: (0..NEWCOMERS).filter(late).count() }
}

/// The victims pass no earlier than without the flood, and again once their debt has decayed.
fn decay_alike(flooded: &Memory, calm: &Memory, limit: &Limit, victims: &[String]) {
    let mut passed = vec![(0, 0); victims.len()];
    let (mut at, decayed) = (T0 + SECOND, check(calm, limit, &victims[0], T0).reset_at_ms * 1_000);
    while at < T0 + 150 * SECOND {
        at += 250_000;
        for (victim, (passed, passed_calm)) in victims.iter().zip(&mut passed) {
            *passed += u64::from(admits(flooded, limit, victim, at));
            *passed_calm += u64::from(admits(calm, limit, victim, at));
            // After that they are keys like any other, and may be forgotten when they owe little.
            let owes = at < decayed;
            assert!(!owes || passed <= passed_calm, "{victim} admitted early, at +{} us", at - T0);
        }
    }
    for (victim, (passed, _)) in victims.iter().zip(passed) {
        assert!(passed >= LIMIT, "{victim} is denied long after its debt has decayed");
    }
}

/// How many victims were evicted, none of whose debts was dropped.
fn report(name: &str, max_keys: usize, rule: &Rule, kind: Flood) -> usize {
    let Figures { evicted, during, after } = flood(max_keys, rule, kind);
    println!(
        "{name}, {max_keys} keys, {kind:?}: {evicted} of {VICTIMS} evicted, no debt dropped; \
         newcomers admitted: {during}/{NEWCOMERS} during, {after}/{NEWCOMERS} after"
    );
    assert_eq!(after, NEWCOMERS, "newcomers pay no longer than the debt lasts");
    match kind {
        Flood::Cheap => {
            assert_eq!(evicted, 0, "keys that owe less were there to be evicted");
            assert_eq!(during, NEWCOMERS, "a cheap flood costs newcomers nothing");
        }
        // Else this shows nothing.
        Flood::Expensive => assert!(during < NEWCOMERS / 2, "{during}"),
    }
    evicted
}

#[test]
fn a_flood_never_forgives_the_throttled() {
    let mut evicted = 0;
    for (name, rule) in rules(LIMIT, PERIOD) {
        report(name, 1_000, &rule, Flood::Cheap);
        evicted += report(name, 1_000, &rule, Flood::Expensive);
    }
    assert!(evicted > 0, "no key was evicted: this shows nothing");
}

#[test]
fn a_large_flood_never_forgives_the_throttled() {
    for (name, rule) in rules(LIMIT, PERIOD) {
        if ["gcra", "fixed_window", "sliding_window", "sliding_log"].contains(&name) {
            report(name, 10_000, &rule, Flood::Cheap);
            report(name, 10_000, &rule, Flood::Expensive);
        }
    }
}

/// The documented loss: a key that could be admitted again is not throttled, and what it still owes
/// may be forgotten. It never gets more than its quota for that.
#[test]
fn an_expensive_flood_may_forget_a_key_that_is_no_longer_throttled() {
    for (name, rule) in rules(LIMIT, PERIOD) {
        let (memory, limit, later) = (store(1_000), limit_of(&rule), T0 + 7 * SECOND);
        let victims: Vec<String> = (0..VICTIMS).map(|victim| format!("victim:{victim}")).collect();
        for victim in &victims {
            drain(&memory, &limit, victim, T0);
        }
        let mut passed = vec![0; VICTIMS];
        // Each tries its luck once, at another moment: trying takes the unit that has come back.
        for spoof in 0..10_000 {
            drain(&memory, &limit, &format!("spoofed:{spoof}"), later);
            if spoof % 100 == 0 {
                let victim = spoof / 100;
                passed[victim] = drain(&memory, &limit, &victims[victim], later);
            }
        }
        let over: u64 = passed.iter().map(|passed| passed.saturating_sub(1)).sum();
        println!("{name}: {over} units too many for {VICTIMS} keys that owed {}", LIMIT - 1);
        assert!(passed.iter().all(|passed| *passed <= LIMIT), "{name}: {passed:?}");
    }
}

/// The other choice of a policy: newcomers pass, and what a throttled key owed may be forgotten.
#[test]
fn a_policy_that_admits_newcomers_does_so_in_a_flood_of_drained_keys() {
    for (name, rule) in rules(LIMIT, PERIOD) {
        let bounds = Bounds::new().max_keys(1_000).when_full(WhenFull::Admit);
        let (memory, limit) = (Memory::new(), limit_of(&rule).bounded(bounds));
        let victims: Vec<String> = (0..VICTIMS).map(|victim| format!("victim:{victim}")).collect();
        for victim in &victims {
            drain(&memory, &limit, victim, T0);
        }
        for spoof in 0..10_000 {
            assert_eq!(drain(&memory, &limit, &format!("spoofed:{spoof}"), T0), LIMIT, "{name}");
        }
        let admitted =
            (0..NEWCOMERS).filter(|new| admits(&memory, &limit, &format!("new:{new}"), T0));
        assert_eq!(admitted.count(), NEWCOMERS, "{name}");
        let passing = victims.iter().filter(|victim| admits(&memory, &limit, victim, T0)).count();
        println!("{name}: {passing} of {VICTIMS} throttled keys pass");
        assert!(memory.usage()[0].is_full());
    }
}
