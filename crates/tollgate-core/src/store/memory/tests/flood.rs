//! A flood of new keys must not forgive a throttled key, whatever it costs the newcomers.

use core::time::Duration;

use super::*;

const LIMIT: u64 = 10;
/// One unit takes six seconds, so that the whole flood passes while the victim is throttled.
const PERIOD: Duration = Duration::from_secs(60);
const NEWCOMERS: usize = 200;

#[derive(Clone, Copy, Debug)]
enum Flood {
    /// Every spoofed key is hit once.
    Cheap,
    /// Every spoofed key is drained.
    Expensive,
}

struct Figures {
    evicted: bool,
    during: usize,
    after: usize,
}

/// Drains a victim, floods the store for a second, and compares the victim with one that no flood
/// ever touched, at many instants until its debt has decayed.
fn flood(max_keys: usize, rule: &Rule, kind: Flood) -> Figures {
    let (flooded, calm, limit) = (store(max_keys), store(100), limit_of(rule));
    assert_eq!(drain(&flooded, &limit, "victim", T0), LIMIT);
    assert_eq!(drain(&calm, &limit, "victim", T0), LIMIT);

    let spoofed = 10 * max_keys;
    let mut during = 0;
    for spoof in 0..spoofed {
        let at = T0 + SECOND * spoof as u64 / spoofed as u64;
        let subject = format!("spoofed:{spoof}");
        match kind {
            Flood::Cheap => drop(check(&flooded, &limit, &subject, at)),
            Flood::Expensive => drop(drain(&flooded, &limit, &subject, at)),
        }
        if spoof % 97 == 0 {
            assert!(!admits(&flooded, &limit, "victim", at), "forgiven after {spoof} keys");
        }
        // Legitimate newcomers in the second half, when the table is long full.
        if spoof >= spoofed / 2 && spoof % (spoofed / 2 / NEWCOMERS) == 0 {
            during += usize::from(admits(&flooded, &limit, &format!("new:{spoof}"), at));
        }
    }
    let evicted = !is_held(&flooded, &limit.charge("victim"));

    let (mut passed, mut passed_calm, mut at) = (0, 0, T0 + SECOND);
    while at < T0 + 150 * SECOND {
        at += 250_000;
        passed += u64::from(admits(&flooded, &limit, "victim", at));
        passed_calm += u64::from(admits(&calm, &limit, "victim", at));
        assert!(passed <= passed_calm, "admitted earlier, at +{} us", at - T0);
    }
    assert!(passed >= LIMIT, "the victim is still denied long after its debt has decayed");
    let admitted = (0..NEWCOMERS).filter(|new| admits(&flooded, &limit, &format!("late:{new}"), at));
    Figures { evicted, during, after: admitted.count() }
}

fn report(name: &str, max_keys: usize, rule: &Rule, kind: Flood) {
    let Figures { evicted, during, after } = flood(max_keys, rule, kind);
    let fate = if evicted { "evicted, not forgiven" } else { "kept" };
    println!(
        "{name}, {max_keys} keys, {kind:?}: victim {fate}; newcomers admitted {during}/{NEWCOMERS} \
         during, {after}/{NEWCOMERS} after"
    );
    assert_eq!(after, NEWCOMERS, "newcomers pay no longer than the debt lasts");
    match kind {
        Flood::Cheap => {
            assert!(!evicted, "keys that owe less were there to be evicted");
            assert_eq!(during, NEWCOMERS, "a cheap flood costs newcomers nothing");
        }
        // The table cannot hold them all: else this shows nothing.
        Flood::Expensive => assert!(during < NEWCOMERS / 2, "{during}"),
    }
}

#[test]
fn a_flood_never_forgives_the_throttled() {
    for (name, rule) in rules(LIMIT, PERIOD) {
        report(name, 1_000, &rule, Flood::Cheap);
        report(name, 1_000, &rule, Flood::Expensive);
    }
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
