//! The built-in algorithms at the edges of what they accept, and what they tell other programs.

use super::*;
use crate::algorithm::{Anchor, Renewal, ScriptedStep};
use crate::time::MICROS_MAX;

const SECOND: Micros = 1_000_000;

fn fixed(anchor: Anchor) -> FixedWindow {
    FixedWindow::new(Quota::per_second(5), anchor).unwrap()
}

fn sliding() -> SlidingWindow {
    SlidingWindow::with_buckets(Quota::per_second(5), 10).unwrap()
}

fn log() -> SlidingLog {
    SlidingLog::new(Quota::per_second(5)).unwrap()
}

#[test]
fn a_script_gets_the_numbers_of_each_quota() {
    let gcra = Gcra::new(Quota::new(3, Duration::from_micros(10))).unwrap();
    // A bucket has 17 bits.
    let digits = 1 << 35;
    let expected: [(&dyn Algorithm, ScriptedStep, &[u64]); 5] = [
        (&gcra, ScriptedStep::Schedule, &[3]),
        (&fixed(Anchor::Epoch), ScriptedStep::FixedWindow, &[SECOND, 0, 5]),
        (&fixed(Anchor::FirstHit), ScriptedStep::FixedWindow, &[SECOND, 1, 5]),
        (&sliding(), ScriptedStep::SlidingWindow, &[100_000, 10, 5, digits]),
        (&log(), ScriptedStep::SlidingLog, &[SECOND, 5]),
    ];
    for (algorithm, step, expected) in expected {
        let (mut numbers, mut cost) = (Vec::new(), Vec::new());
        algorithm.script_quota(&mut numbers);
        algorithm.script_cost(Cost::new(2).unwrap(), &mut cost);
        assert_eq!((algorithm.scripted_step(), &*numbers), (Some(step), expected));
        assert!(step == ScriptedStep::Schedule || cost == [2], "{step:?}: {cost:?}");
    }
}

#[test]
fn states_beyond_the_range_are_refused() {
    let gcra = Gcra::new(Quota::new(3, Duration::from_micros(10))).unwrap();
    let (last, units) = (MICROS_MAX - 1, 1 << 48);
    let edges: [(&dyn Algorithm, &[u64], bool); 12] = [
        (&gcra, &[2 * MICROS_MAX - 1, 2], true),
        (&gcra, &[2 * MICROS_MAX, 2], false),
        (&gcra, &[1, 3], false),
        (&fixed(Anchor::Epoch), &[last, units], true),
        (&fixed(Anchor::Epoch), &[last + 1, units], false),
        (&fixed(Anchor::Epoch), &[last, units + 1], false),
        (&log(), &[1, 1, 2, 1], true),
        (&log(), &[2, 1, 2, 1], false),
        (&log(), &[2, 1, 1, 1], false),
        (&log(), &[last, units], true),
        (&log(), &[last + 1, units], false),
        (&log(), &[1, units, 2, 1], false),
    ];
    for (algorithm, words, accepted) in edges {
        assert_eq!(algorithm.accepts(words), accepted, "{} {words:?}", algorithm.name());
    }
}

#[test]
fn a_period_is_at_most_the_longest_that_can_be_cut() {
    let window = |micros, buckets| {
        SlidingWindow::with_buckets(Quota::new(10, Duration::from_micros(micros)), buckets)
    };
    // 2^50 is 18 more than a multiple of 23.
    assert!(window((1 << 50) - 18, 23).is_ok());
    assert!(window((1 << 50) + 5, 23).is_err());
}

#[test]
fn a_period_of_parts_says_how_many_buckets_it_was_to_be_cut_into() {
    let quota = Quota::new(10, Duration::from_nanos(1_500));
    let cut = SlidingWindow::with_buckets(quota, 10).unwrap_err();
    assert!(cut.message().contains("10 buckets of whole microseconds"), "{cut}");
    let whole = FixedWindow::new(quota, Anchor::Epoch).unwrap_err();
    assert!(whole.message().contains("cut into whole microseconds"), "{whole}");
}

#[test]
fn a_schedule_owes_no_more_than_all_of_its_burst() {
    let gcra = Gcra::with_burst(Quota::per_second(1), 2).unwrap();
    for (until, owed_until) in [(NOW + 10 * SECOND, NOW + 2 * SECOND), (NOW + 1, NOW + 1), (0, NOW)]
    {
        let write = gcra.indebted_until(until, NOW);
        assert_eq!((&*write.words, write.fresh_at), (&[owed_until, 0][..], owed_until));
    }
}

#[test]
fn the_largest_rate_is_its_own_whole_share() {
    let gcra = Gcra::new(Quota::new(1 << 48, Duration::from_micros(3))).unwrap();
    for whole in [1, 1_000] {
        let scaled = gcra.scaled(whole, whole).unwrap();
        assert_eq!(scaled.quota_id(), gcra.quota_id(), "{whole} of {whole}");
    }
}

#[test]
fn an_entry_that_only_kept_the_time_leaves_with_the_next_charge() {
    let step = log().step(&[NOW, 1, NOW + 1, 0], Now::at(NOW + 2), Cost::ONE);
    assert_eq!(&*step.write.unwrap().words, [NOW, 1, NOW + 2, 1]);
}

#[test]
fn a_window_is_what_clients_are_told_and_a_horizon_is_a_bucket_longer() {
    assert_eq!((sliding().window(), sliding().horizon()), (SECOND, 1_100_000));
    assert_eq!(sliding().describe().period, SECOND);
}

#[test]
fn the_texts_of_renewals_stay() {
    let renewals = [
        (Renewal::Steady, "steady"),
        (Renewal::Window(Anchor::Epoch), "window"),
        (Renewal::Buckets(10), "buckets"),
        (Renewal::Rolling, "rolling"),
        (Renewal::Unstated, "unstated"),
    ];
    assert!(renewals.iter().all(|(renewal, text)| renewal.as_str() == *text));
}
