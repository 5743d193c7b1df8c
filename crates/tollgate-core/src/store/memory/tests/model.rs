//! Every interleaving of the critical section on a line, under the loom model checker.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::super::atomic_word::AtomicWord;
use super::super::fill::Fill;
use super::super::fingerprint::Id;
use super::super::line::{Charged, Content, Held, Line, charge_short, charge_word};
use crate::algorithm::{Algorithm, Anchor, FixedWindow, Gcra, PackedSchedule};
use crate::cost::Cost;
use crate::quota::Quota;
use crate::rule::Rule;
use crate::state::Words;
use crate::time::Now;

impl AtomicWord for AtomicU64 {
    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn store(&self, word: u64) {
        self.store(word, Ordering::Release);
    }

    fn swap(&self, word: u64) -> u64 {
        self.swap(word, Ordering::AcqRel)
    }

    fn replace(&self, expected: u64, new: u64) -> bool {
        self.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn wait(_spins: &mut u32) {
        thread::yield_now();
    }

    fn step_back(_pause: &mut u32) {
        thread::yield_now();
    }
}

const ALICE: Id = Id { low: 0x0A11_CE00_0A11_CE00, high: 1 << 63 | 1 };
const BOB: Id = Id { low: 0x0B0B_0000_0B0B_0000, high: 1 << 63 | 2 };
const NOW: Now = Now::at(1_000_000);
/// Microseconds per unit, and units at once.
const UNIT: u64 = 500_000;
const BURST: u64 = 2;

/// All interleavings with up to this many preemptions: with more, there are too many to try.
const PREEMPTIONS: usize = 3;

/// The same for three threads, of which there are far more interleavings.
const PREEMPTIONS_OF_THREE: usize = 2;

fn explore(scenario: impl Fn() + Sync + Send + 'static) {
    explore_up_to(PREEMPTIONS, scenario);
}

fn explore_up_to(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(scenario);
}

fn rule() -> Rule {
    Rule::new(Gcra::new(Quota::per_second(BURST)).unwrap())
}

fn packed() -> PackedSchedule {
    Gcra::new(Quota::per_second(BURST)).unwrap().packed_schedule().unwrap()
}

fn instant(word: u64) -> Content {
    let packed = packed();
    Content::PackedSchedule {
        word,
        scale: packed.scale(),
        throttled_above: packed.throttled_above(),
    }
}

fn unused() -> Line<AtomicU64> {
    Line(std::array::from_fn(|_| AtomicU64::new(0)))
}

fn line_with(id: Id, tag: u64, content: &Content) -> Arc<Line<AtomicU64>> {
    let line = unused();
    Held::lock(&line).put(id, tag, content);
    Arc::new(line)
}

/// Charges one unit; whether it was granted, `None` if the line is another's.
fn charge(line: &Line<AtomicU64>, id: Id) -> Option<bool> {
    match charge_word(line, id, (rule().quota_tag(), &packed()), NOW, Cost::ONE) {
        Charged::Granted { .. } => Some(true),
        Charged::Refused { .. } => Some(false),
        _ => None,
    }
}

fn word_in(line: &Line<AtomicU64>) -> u64 {
    match Held::lock(line).content() {
        Some(Content::PackedSchedule { word, .. }) => word,
        other => panic!("not one word: {other:?}"),
    }
}

/// Like the general path: under the lock, read, decide, write.
fn charge_held(line: &Line<AtomicU64>) -> bool {
    let held = Held::lock(line);
    let Some(Content::PackedSchedule { word, .. }) = held.content() else { panic!("not one word") };
    let next = packed().advance(word, NOW, Cost::ONE);
    if let Some(next) = next {
        held.put(ALICE, rule().quota_tag(), &instant(next));
    }
    next.is_some()
}

#[test]
fn racing_swaps_grant_exactly_the_burst() {
    explore(|| {
        let line = line_with(ALICE, rule().quota_tag(), &instant(NOW.reading()));
        let charges: Vec<_> = (0..2)
            .map(|_| {
                let line = Arc::clone(&line);
                thread::spawn(move || [charge(&line, ALICE), charge(&line, ALICE)])
            })
            .collect();
        let answers = charges.into_iter().flat_map(|thread| thread.join().unwrap());
        assert_eq!(answers.filter(|answer| *answer == Some(true)).count(), 2);
        assert_eq!(word_in(&line), NOW.reading() + BURST * UNIT);
    });
}

#[test]
fn no_swap_passes_beside_a_holder() {
    explore(|| {
        let line = line_with(ALICE, rule().quota_tag(), &instant(NOW.reading()));
        let swapper = {
            let line = Arc::clone(&line);
            thread::spawn(move || charge(&line, ALICE) == Some(true))
        };
        let granted = [charge_held(&line), swapper.join().unwrap()];
        assert_eq!(granted, [true, true]);
        assert_eq!(word_in(&line), NOW.reading() + BURST * UNIT, "an update was lost");
    });
}

#[test]
fn a_charge_never_lands_on_the_key_that_replaced_its_own() {
    explore(|| {
        let tag = rule().quota_tag();
        let line = line_with(ALICE, tag, &instant(NOW.reading()));
        let replacer = {
            let line = Arc::clone(&line);
            thread::spawn(move || {
                let held = Held::lock(&line);
                let Some(Content::PackedSchedule { word, .. }) = held.content() else { panic!() };
                // The newcomer has the same state as the old key: only the mask differs.
                held.put(BOB, tag, &instant(NOW.reading()));
                word
            })
        };
        let answer = charge(&line, ALICE);
        let replaced = replacer.join().unwrap();
        // Either the charge came first and the replacer saw it, or it found another key's line.
        match answer {
            Some(granted) => {
                assert!(granted);
                assert_eq!(replaced, NOW.reading() + UNIT);
            }
            None => assert_eq!(replaced, NOW.reading()),
        }
        assert_eq!(word_in(&line), NOW.reading(), "the newcomer was charged");
    });
}

#[test]
fn short_states_are_changed_one_at_a_time() {
    explore(|| {
        let quota = Quota::per_second(2);
        let rule = move || Rule::new(FixedWindow::new(quota, Anchor::Epoch).unwrap());
        let content = Content::Short {
            fresh_at: 2_000_000,
            words: Words::new(&[1_000_000, 1]),
            fill: Fill::LITTLE,
        };
        let line = line_with(ALICE, rule().quota_tag(), &content);
        let charge = move |line: &Line<AtomicU64>| {
            charge_short(line, ALICE, &rule(), NOW, Cost::ONE).unwrap().is_allowed()
        };
        let other = {
            let line = Arc::clone(&line);
            thread::spawn(move || charge(&line))
        };
        let granted = [charge(&line), other.join().unwrap()];
        assert_eq!(granted.into_iter().filter(|granted| *granted).count(), 1);
        let Some(Content::Short { words, fill, .. }) = Held::lock(&line).content() else {
            panic!("not a short state");
        };
        assert_eq!((&*words, fill), (&[1_000_000, 2][..], Fill::THROTTLED));
    });
}

#[test]
fn a_line_that_is_looked_at_and_let_go_loses_no_charge() {
    explore_up_to(PREEMPTIONS_OF_THREE, || {
        let line = line_with(ALICE, rule().quota_tag(), &instant(NOW.reading()));
        let looker = {
            let line = Arc::clone(&line);
            // Like the search for a line to replace, or a denied admission.
            thread::spawn(move || Held::try_lock(&line).and_then(|held| held.content()))
        };
        let swapper = {
            let line = Arc::clone(&line);
            thread::spawn(move || charge(&line, ALICE))
        };
        let granted = [charge(&line, ALICE), swapper.join().unwrap()];
        assert_eq!(granted, [Some(true), Some(true)]);
        if let Some(content) = looker.join().unwrap() {
            let Content::PackedSchedule { word, .. } = content else { panic!("torn: {content:?}") };
            let units = (word - NOW.reading()) / UNIT;
            assert!(units <= 2 && word == NOW.reading() + units * UNIT, "torn: {word}");
        }
        assert_eq!(word_in(&line), NOW.reading() + BURST * UNIT, "a charge was lost");
    });
}

#[test]
fn old_key_replacer_and_newcomer_each_get_what_is_theirs() {
    explore_up_to(PREEMPTIONS_OF_THREE, || {
        let tag = rule().quota_tag();
        let line = line_with(ALICE, tag, &instant(NOW.reading()));
        let replacer = {
            let line = Arc::clone(&line);
            thread::spawn(move || {
                let held = Held::lock(&line);
                let Some(Content::PackedSchedule { word, .. }) = held.content() else { panic!() };
                held.put(BOB, tag, &instant(NOW.reading()));
                word
            })
        };
        let newcomer = {
            let line = Arc::clone(&line);
            thread::spawn(move || charge(&line, BOB))
        };
        let old = charge(&line, ALICE);
        let (replaced, new) = (replacer.join().unwrap(), newcomer.join().unwrap());
        let spent = |granted: Option<bool>| if granted == Some(true) { UNIT } else { 0 };
        assert_eq!(replaced, NOW.reading() + spent(old), "the old key's charge");
        assert_eq!(word_in(&line), NOW.reading() + spent(new), "the newcomer's charge");
    });
}

#[test]
fn a_line_that_changes_its_kind_is_never_read_as_the_other() {
    explore_up_to(PREEMPTIONS_OF_THREE, || {
        let fixed = || Rule::new(FixedWindow::new(Quota::per_second(2), Anchor::Epoch).unwrap());
        let line = line_with(ALICE, rule().quota_tag(), &instant(NOW.reading()));
        let changer = {
            let line = Arc::clone(&line);
            thread::spawn(move || {
                let held = Held::lock(&line);
                let Some(Content::PackedSchedule { word, .. }) = held.content() else { panic!() };
                let words = Words::new(&[1_000_000, 1]);
                let content = Content::Short { fresh_at: 2_000_000, words, fill: Fill::LITTLE };
                held.put(ALICE, fixed().quota_tag(), &content);
                word
            })
        };
        let counter = {
            let line = Arc::clone(&line);
            thread::spawn(move || charge_short(&line, ALICE, &fixed(), NOW, Cost::ONE))
        };
        let swapped = charge(&line, ALICE) == Some(true);
        let (replaced, counted) = (changer.join().unwrap(), counter.join().unwrap());
        assert_eq!(replaced, NOW.reading() + if swapped { UNIT } else { 0 });
        let Some(Content::Short { words, fresh_at, .. }) = Held::lock(&line).content() else {
            panic!("not a short state");
        };
        let count = 1 + u64::from(counted.is_some());
        assert_eq!((&*words, fresh_at), (&[1_000_000, count][..], 2_000_000));
    });
}

/// Moves a key as a growth does, from a line that is held until it is vacated.
fn move_key(from: &Line<AtomicU64>, to: &Line<AtomicU64>) {
    let held = Held::lock(from);
    let (id, tag) = (held.id(), held.tag());
    let content = held.content().unwrap();
    Held::lock(to).put(id, tag, &content);
    held.vacate();
}

#[test]
fn a_key_that_moves_is_charged_in_one_line_at_a_time() {
    explore_up_to(PREEMPTIONS_OF_THREE, || {
        let old = line_with(ALICE, rule().quota_tag(), &instant(NOW.reading()));
        let new = Arc::new(unused());
        let mover = {
            let (old, new) = (Arc::clone(&old), Arc::clone(&new));
            thread::spawn(move || move_key(&old, &new))
        };
        let late = {
            let new = Arc::clone(&new);
            thread::spawn(move || charge(&new, ALICE))
        };
        // Twice, so that the second may come after the move.
        let early = [charge(&old, ALICE), charge(&old, ALICE)];
        mover.join().unwrap();
        let answers = early.into_iter().chain([late.join().unwrap()]);
        let granted = answers.filter(|answer| *answer == Some(true)).count() as u64;
        assert!(granted <= BURST, "{granted} of {BURST}");
        assert_eq!(word_in(&new), NOW.reading() + granted * UNIT, "a charge was lost or doubled");
        assert_eq!(charge(&old, ALICE), None, "the old line is charged");
    });
}

#[test]
fn a_line_that_is_vacated_and_taken_again_is_never_charged_for_the_key_that_left() {
    explore_up_to(PREEMPTIONS_OF_THREE, || {
        let tag = rule().quota_tag();
        let old = line_with(ALICE, tag, &instant(NOW.reading()));
        let new = Arc::new(unused());
        let mover = {
            let (old, new) = (Arc::clone(&old), Arc::clone(&new));
            thread::spawn(move || {
                move_key(&old, &new);
                // The newcomer has the state that the old key had.
                Held::lock(&old).put(BOB, tag, &instant(NOW.reading()));
            })
        };
        let early = charge(&old, ALICE) == Some(true);
        mover.join().unwrap();
        assert_eq!(word_in(&new), NOW.reading() + u64::from(early) * UNIT);
        assert_eq!(word_in(&old), NOW.reading(), "the newcomer was charged");
    });
}
