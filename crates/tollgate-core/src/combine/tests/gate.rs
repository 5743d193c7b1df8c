//! The byte that single calls and rounds share.

use super::super::gate::Gate;

#[test]
fn no_more_rounds_run_than_are_allowed() {
    let gate: Gate = Gate::default();
    assert!(gate.try_enter(2) && gate.running() == 1);
    assert!(gate.try_enter(2) && gate.running() == 2);
    assert!(!gate.try_enter(2));
    assert!(gate.try_leave() && gate.try_enter(2));
}

#[test]
fn no_single_call_runs_beside_a_large_round() {
    let gate: Gate = Gate::default();
    gate.enter();
    gate.set_large(true);
    assert!(!gate.try_enter(2));
    assert_eq!(gate.running(), 1);
    assert!(gate.try_leave() && gate.running() == 0);
    assert!(gate.try_enter(2) && gate.try_enter(2), "the large round has ended");
}

#[test]
fn no_call_overtakes_waiters() {
    let gate: Gate = Gate::default();
    assert!(gate.try_enter(2));
    gate.set_awaited(true);
    assert!(gate.is_awaited() && gate.running() == 1);
    assert!(!gate.try_enter(2) && !gate.try_leave());
    gate.enter();
    gate.set_awaited(false);
    assert!(!gate.is_awaited() && gate.try_leave() && gate.try_leave());
    assert!(gate.try_enter(2));
}
