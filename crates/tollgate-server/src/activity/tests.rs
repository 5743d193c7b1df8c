//! Keys as callers have them: a few that do the most, and a million that do little.

use std::sync::Arc;

use tollgate::{Cost, Decision, Name};
use tollgate_service::engine::{CheckRequest, CheckResponse, RequestedCharge};
use tollgate_service::policies_from_yaml;
use tollgate_service::policy::LimitName;
use tollgate_testkit::rng::Rng;

use super::sketch::{ENTRIES_MAX, Sketch};
use super::{Activity, Counted};

const KEYS: usize = 1_000_000;
const EVENTS: usize = 4_000_000;
/// How many of the largest must be right.
const TOP: usize = 20;
const SEED: u64 = 20;

/// Draws keys by Zipf's law: the second does half as much as the first, the third a third.
struct Zipf(Vec<u64>);

impl Zipf {
    fn new() -> Self {
        let shares = (1..=KEYS).map(|rank| 1_000_000_000_000 / u64::try_from(rank).unwrap());
        Self(
            shares
                .scan(0, |sum, share| {
                    *sum += share;
                    Some(*sum)
                })
                .collect(),
        )
    }

    /// The rank of a key, from 0.
    fn draw(&self, rng: &mut Rng) -> usize {
        let at = rng.below(*self.0.last().unwrap());
        self.0.partition_point(|sum| *sum <= at)
    }
}

/// The ranks of the largest totals.
fn largest(totals: &[u64]) -> Vec<usize> {
    let mut ranks: Vec<usize> = (0..totals.len()).collect();
    ranks.sort_by_key(|rank| std::cmp::Reverse(totals[*rank]));
    ranks.truncate(TOP);
    ranks
}

fn response(decision: Decision) -> CheckResponse {
    let name = Name::new("policy", "p").unwrap();
    let limits = Arc::from([LimitName { policy: name.clone(), name: name.clone() }]);
    let (granted, shadow, receipt, shadows) = (None, None, None, Vec::new());
    CheckResponse { policy: name, decision, limits, granted, shadow, receipt, shadows }
}

#[test]
fn the_sketch_has_the_true_top_of_a_million_keys_within_its_bound() {
    println!("seed {SEED}");
    let (zipf, mut rng) = (Zipf::new(), Rng::new(SEED));
    let (mut sketch, mut totals) = (Sketch::default(), vec![0_u64; KEYS]);
    for _ in 0..EVENTS {
        let rank = zipf.draw(&mut rng);
        totals[rank] += 1;
        sketch.add(&rank.to_string(), 1);
    }
    let bound = u64::try_from(EVENTS / ENTRIES_MAX).unwrap();
    let (empty, truth) = (Sketch::default(), largest(&totals));
    let all = super::top(&sketch, &empty, ENTRIES_MAX);
    for rank in &truth {
        assert!(totals[*rank] > bound, "the bound says nothing about {rank}");
        let (place, (_, counted)) =
            all.iter().enumerate().find(|(_, (key, _))| *key == rank.to_string()).unwrap();
        let Counted { count, error } = *counted;
        println!("{rank}: {} is listed {place} with {count}, error {error}", totals[*rank]);
        assert!(error <= bound);
        assert!((count - error..=count).contains(&totals[*rank]));
    }
    let least = totals[*truth.last().unwrap()];
    for (key, _) in &all[..TOP] {
        assert!(totals[key.parse::<usize>().unwrap()] + bound >= least, "{key}");
    }
}

#[test]
fn a_sample_of_a_flood_has_the_true_top_within_its_bound() {
    println!("seed {SEED}");
    let (zipf, mut rng) = (Zipf::new(), Rng::new(SEED));
    let (activity, mut denied, mut spent) =
        (Activity::default(), vec![0_u64; KEYS], vec![0_u64; KEYS]);
    let (denial, allowed) =
        (response(Decision::denied(10, 0, 1_000, 500)), response(Decision::allowed(10, 9, 1_000)));
    let policies = policies_from_yaml("policies: {p: {limit: 10 per 1m}}").unwrap();
    let mut intervals = (1, 1);
    for event in 0..EVENTS {
        let rank = zipf.draw(&mut rng);
        let (key, cost) = (rank.to_string(), 1 + rng.below(9));
        let charge = RequestedCharge::new("p", &key).cost(Cost::new(cost).unwrap());
        let request = CheckRequest::one(charge);
        if event % 2 == 0 {
            activity.decided(&request, &denial);
            denied[rank] += 1;
        } else {
            activity.decided(&request, &allowed);
            spent[rank] += cost;
        }
        if event % 100_000 == 99_999 {
            let (denials, units) = activity.intervals();
            intervals = (intervals.0.max(denials), intervals.1.max(units));
            activity.second_passed();
        }
        if event == EVENTS / 2 {
            activity.window_passed(&policies);
        }
    }
    println!("one in {intervals:?}");
    assert!(intervals.0 > 1 && intervals.1 > 1);
    activity.of("p", |policy| {
        for (totals, listed, interval) in [
            (&denied, policy.throttled(ENTRIES_MAX), intervals.0),
            (&spent, policy.spenders(ENTRIES_MAX), intervals.1),
        ] {
            let bound = totals.iter().sum::<u64>() / u64::try_from(ENTRIES_MAX).unwrap();
            for rank in largest(totals) {
                let truth = totals[rank];
                let (_, Counted { count, error }) =
                    listed.iter().find(|(key, _)| *key == rank.to_string()).unwrap();
                // Six standard deviations.
                let off = 6 * (interval * truth).isqrt();
                println!("{rank}: {truth} is listed with {count}, error {error}, {off}");
                assert!(*error <= bound + 6 * (interval * bound).isqrt());
                assert!((count.saturating_sub(error + off)..=count + off).contains(&truth));
            }
        }
        assert_eq!(policy.denied_by().map(|(limit, _)| limit).collect::<Vec<_>>(), ["p"]);
        let newest = policy.denials().next().unwrap();
        assert_eq!(
            (newest.limit.as_ref().unwrap().as_str(), newest.retry_after_ms),
            ("p", Some(500))
        );
    });
}

#[test]
fn windows_pass_and_policies_that_are_gone_are_forgotten() {
    let activity = Activity::default();
    let policies =
        |name| policies_from_yaml(&format!("policies: {{{name}: {{limit: 10 per 1m}}}}"));
    let (with, without) = (policies("p").unwrap(), policies("q").unwrap());
    let listed = || activity.of("p", |policy| policy.throttled(TOP).len());
    let deny = || {
        activity
            .decided(&CheckRequest::new("p", "k"), &response(Decision::denied(10, 0, 1_000, 5)));
    };
    deny();
    activity.window_passed(&with);
    assert_eq!(listed(), 1);
    activity.window_passed(&with);
    assert_eq!(listed(), 0);
    assert_eq!(activity.of("p", |policy| policy.denials().count()), 1, "denials stay");
    deny();
    activity.window_passed(&without);
    assert_eq!(activity.of("p", |policy| policy.denials().count()), 0);
}
