//! Rounds over values that a store holds: what each admission sees, and what is to be written.

use super::super::round::{Round, RoundBounds, state_in};
use super::*;
use crate::charge::RequestId;

const BOUNDS: RoundBounds = RoundBounds { slack: 7, room: 1 };

#[test]
fn admissions_of_a_round_see_each_other_and_write_a_key_once() {
    let two = per_hour("p", 2);
    let charges = [two.charge("a")];
    let round = Round::of((0..3).map(|_| (Admission::of(&charges), NOW.time())));
    let names: Vec<_> = round.names().map(|name| (name.text, name.is_record)).collect();
    assert_eq!(names, [("tollgate:p:{a}", false)]);
    let decided = round.decide(vec![None], None, BOUNDS).unwrap();
    let admitted = decided
        .outcomes
        .iter()
        .map(|outcome| decision(&charges[0], outcome.as_ref().unwrap()).is_allowed());
    assert_eq!(admitted.collect::<Vec<_>>(), [true, true, false]);
    let [write] = &decided.writes[..] else { panic!("{decided:?}") };
    assert_eq!((write.place, write.keep_until), (0, START + HOUR + 7));
    assert_eq!(state_in(&write.text).unwrap().unwrap().words[1], 2);
    // What was written is what the next round reads.
    let again = round.decide(vec![Some(write.text.clone())], None, BOUNDS).unwrap();
    assert!(again.writes.is_empty(), "denials write nothing");
}

#[test]
fn ids_beyond_the_room_are_refused_and_charge_nothing() {
    let many = per_hour("p", 9);
    let charges = [many.charge("a")];
    let of = |id| (Admission::of(&charges).request_id(RequestId::new(id).unwrap()), NOW.time());
    let round = Round::of([of("one"), of("two"), of("one")]);
    assert_eq!(round.names().filter(|name| name.is_record).count(), 2);
    let decided = round.decide(vec![None; round.names().len()], None, BOUNDS).unwrap();
    let codes = decided.outcomes.iter().map(|outcome| outcome.as_ref().err().map(|e| e.code()));
    assert_eq!(codes.collect::<Vec<_>>(), [None, Some(Code::QueueFull), None]);
    assert!(decided.outcomes[2].as_ref().unwrap().replayed.is_some());
    assert_eq!(decided.writes.len(), 2, "one state and one record");
    let error = round.decide(vec![None], None, BOUNDS).unwrap_err();
    assert_eq!(error.code(), Code::CorruptState, "fewer values than names");
}
