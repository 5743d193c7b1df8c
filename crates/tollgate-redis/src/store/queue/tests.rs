//! Who leads, who waits, and who is woken.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tollgate_core::algorithm::Gcra;
use tollgate_core::store::TimeSource;
use tollgate_core::{Limit, Quota};

use super::*;

fn ticket() -> Arc<Ticket> {
    let limit = Limit::new("a", Gcra::new(Quota::per_second(1)).unwrap()).unwrap();
    let charge = limit.charge("x");
    let step = charge.rule().scripted_step().unwrap();
    Ticket::new(Item::new(&charge, ("x".to_owned(), step), TimeSource::StoreClock))
}

fn join(line: Line<'_>, count: usize) {
    (0..count).for_each(|_| line.join(ticket()));
}

#[test]
fn beside_a_crowd_a_round_waits_until_it_is_half_as_large() {
    let queues = Queues::new(Sharing::AnyKeys);
    let line = queues.at(queues.lane(Place::Anywhere));
    join(line, 10);
    assert_eq!(line.lift_off().unwrap().len(), 10);
    assert!(!line.lift_off_alone(), "it would be a call of its own");
    join(line, 4);
    assert!(line.lift_off().is_none());
    join(line, 1);
    assert_eq!(line.lift_off().unwrap().len(), 5);
    join(line, 1);
    assert!(line.lift_off().is_none(), "two are under way");
    // The small one leaves those who wait to the crowd, if they are few.
    assert!(line.go_on(5).is_none());
    assert!(line.lift_off().is_none());
    assert_eq!(line.go_on(10).unwrap().len(), 1);
    // The crowd has landed: a few go at once again.
    join(line, 1);
    assert_eq!(line.lift_off().unwrap().len(), 1);
    assert!(line.go_on(1).is_none() && line.lift_off_alone());
}

#[test]
fn whoever_is_woken_to_lead_is_somebody_who_waits() {
    let queues = Queues::new(Sharing::AnyKeys);
    let line = queues.at(queues.lane(Place::Anywhere));
    assert!(line.lift_off_alone() && line.lift_off_alone());
    let (gone, stays) = (ticket(), ticket());
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    for ticket in [&gone, &stays] {
        line.join(Arc::clone(ticket));
        assert!(ticket.poll(&Context::from_waker(&waker)).is_pending());
    }
    assert!(gone.leave());
    line.land(0);
    assert_eq!(woken.0.load(Relaxed), 1, "the one in front has left");
    assert_eq!(line.lift_off().unwrap().len(), 1);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_few_callers_go_at_once() {
    let queues = Queues::new(Sharing::AnyKeys);
    let line = queues.at(queues.lane(Place::Anywhere));
    assert!(line.lift_off_alone());
    assert!(line.lift_off_alone());
    assert!(!line.lift_off_alone());
    join(line, 1);
    assert!(line.lift_off().is_none());
    assert!(!line.land_for_good(0), "somebody waits");
    assert_eq!(line.go_on(0).unwrap().len(), 1);
    assert!(line.land_for_good(1) && line.land_for_good(0));
}

#[test]
fn a_crowd_is_over_when_it_has_landed() {
    let queues = Queues::new(Sharing::AnyKeys);
    let line = queues.at(queues.lane(Place::Anywhere));
    for goes_on in [false, true] {
        let land = |size| match goes_on {
            false => line.land_for_good(size),
            true => line.go_on(size).is_none(),
        };
        assert!(line.lift_off_alone());
        join(line, CROWD);
        assert_eq!(line.lift_off().unwrap().len(), CROWD);
        assert!(land(CROWD));
        assert!(line.lift_off_alone(), "the other one under way is no crowd");
        assert!(land(0) && land(0));
    }
}

#[test]
fn no_crowd_is_so_large_that_a_good_round_waits_for_it() {
    let queues = Queues::new(Sharing::AnyKeys);
    let line = queues.at(queues.lane(Place::Anywhere));
    join(line, ROUND_MAX);
    assert_eq!(line.lift_off().unwrap().len(), ROUND_MAX);
    join(line, SECOND_MAX);
    assert_eq!(line.lift_off().unwrap().len(), SECOND_MAX);
}

/// Slots are given to nodes in long runs.
#[test]
fn slots_that_share_a_queue_are_neighbours() {
    let queues = Queues::new(Sharing::SameSlot);
    let lanes: Vec<usize> = (0..16_384).map(|slot| queues.lane(Place::Slot(slot)).0).collect();
    assert!(lanes.is_sorted());
    assert_eq!((lanes[0], lanes[16_383]), (0, SLOT_LANES - 1));
}

#[test]
fn districts_share_no_queue_with_each_other_or_with_slots() {
    let queues = Queues::new(Sharing::SameSlot);
    let lanes: Vec<usize> = (0..256).map(|node| queues.lane(Place::District(node)).0).collect();
    assert!(lanes.is_sorted_by(|a, b| a < b) && lanes[0] == SLOT_LANES);
    let line = |lane: usize| core::ptr::from_ref(queues.at(Lane(lane)).queue);
    assert!(lanes.iter().all(|lane| (0..SLOT_LANES).all(|slot| line(*lane) != line(slot))));
}
