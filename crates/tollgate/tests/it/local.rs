//! Deciding alone: fed by every decision while healthy, so that a switch hands out no fresh budget.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tollgate::algorithm::CustomAlgorithm;
use tollgate::limiter::{BreakerConfig, Share};
use tollgate::{
    Admission, Clock, Code, Cost, Decision, Limit, Limiter, ManualClock, OutageMode, RequestId,
    Verdict,
};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::fault::{Fault, Faulty};
use tollgate_testkit::model::Kind;
use tollgate_testkit::rng::Rng;
use tollgate_testkit::runtime::block_on;

use crate::support::{Allowance, MS, NOW, SECOND, charge, limit_of, memory, per_hour};

const MINUTE: Duration = Duration::from_secs(60);
const MONTH: Duration = Duration::from_secs(30 * 86_400);

/// A node: a limiter over a shared store, with a line of its own that can be cut.
struct Node {
    line: Arc<Faulty<Arc<ReferenceStore>>>,
    limiter: Limiter<Arc<Faulty<Arc<ReferenceStore>>>>,
}

impl Node {
    fn new(store: &Arc<ReferenceStore>, clock: &ManualClock, nodes: u32) -> Self {
        let line = Arc::new(Faulty::scripted(store.clone(), clock.clone(), []));
        let limiter = Limiter::with_clock(line.clone(), clock.clone())
            .local_share(Share::one_of(NonZeroU32::new(nodes).unwrap()))
            .breaker(BreakerConfig::default().failures(0).open_for(Duration::from_secs(1)))
            .build();
        Self { line, limiter }
    }

    fn nodes(clock: &ManualClock, count: u32) -> Vec<Self> {
        let store = Arc::new(ReferenceStore::new());
        (0..count).map(|_| Self::new(&store, clock, count)).collect()
    }

    fn check(&self, limit: &Limit, cost: u64) -> Decision {
        let decision = block_on(self.limiter.check(charge(limit, "k", cost))).unwrap();
        assert_eq!(decision.degraded, None);
        decision
    }

    /// A check without the store; nothing reaches it.
    fn check_alone(&self, limit: &Limit, cost: u64) -> Decision {
        self.line.then([Fault::Before, Fault::Before]);
        let decision = block_on(self.limiter.check(charge(limit, "k", cost))).unwrap();
        assert_eq!(decision.degraded, Some(OutageMode::Local));
        decision
    }

    /// How many units it grants alone at this instant.
    fn drain_alone(&self, limit: &Limit) -> u64 {
        let mut granted = 0;
        while self.check_alone(limit, 1).is_allowed() {
            granted += 1;
            assert!(granted < 100_000, "it never ends");
        }
        granted
    }
}

fn local(kind: Kind, units: u64, period: Duration) -> Limit {
    limit_of(kind, units, period).on_outage(OutageMode::Local)
}

#[test]
fn the_switch_hands_out_no_fresh_budget() {
    for kind in Kind::ALL {
        for period in [MINUTE, MONTH] {
            let clock = ManualClock::at(NOW);
            let node = Node::nodes(&clock, 1).remove(0);
            let limit = local(kind, 10, period);
            for _ in 0..3 {
                assert!(node.check(&limit, 2).is_allowed());
            }
            assert_eq!(node.drain_alone(&limit), 4, "{} per {period:?}", kind.name());
        }
    }
}

#[test]
fn what_a_range_was_granted_is_spent_in_the_outage_and_a_range_gets_the_rest() {
    for kind in Kind::ALL {
        let clock = ManualClock::at(NOW);
        let node = Node::nodes(&clock, 1).remove(0);
        let limit = local(kind, 10, MONTH);
        let range = |min, max| charge(&limit, "k", min).up_to(Cost::new(max).unwrap());
        let granted = |range| block_on(node.limiter.check(range)).unwrap().granted();
        let id = RequestId::new("batch").unwrap();
        let once = block_on(node.limiter.check(range(1, 2).request_id(id))).unwrap();
        assert_eq!(once.granted().map(Cost::get), Some(2));
        assert_eq!(granted(range(1, 4)).map(Cost::get), Some(4));
        for expected in [Some(3), Some(1), None] {
            node.line.then([Fault::Before, Fault::Before]);
            let alone = granted(range(1, 3)).map(Cost::get);
            assert_eq!(alone, expected, "{}", kind.name());
        }
        // Alone it might have granted less: the range is decided anew, and nothing is left.
        node.line.then([Fault::Before, Fault::Before]);
        let again = block_on(node.limiter.check(range(1, 2).request_id(id))).unwrap();
        assert_eq!(again.granted(), None, "{}", kind.name());
    }
}

#[test]
fn a_node_has_spent_what_it_took_and_not_what_it_was_denied() {
    for kind in Kind::ALL {
        let clock = ManualClock::at(NOW);
        // Of 10 units, each of two nodes may grant 5 alone.
        let limit = local(kind, 10, MONTH);
        let node = Node::nodes(&clock, 2).remove(0);
        assert!(node.check(&limit, 3).is_allowed());
        assert_eq!(node.drain_alone(&limit), 2, "{}", kind.name());
        let node = Node::nodes(&clock, 2).remove(0);
        assert!(node.check(&limit, 4).is_allowed() && node.check(&limit, 4).is_allowed());
        assert_eq!(node.drain_alone(&limit), 0, "{}: more than its share", kind.name());
        let node = Node::nodes(&clock, 1).remove(0);
        assert!(node.check(&limit, 3).is_allowed() && !node.check(&limit, 9).is_allowed());
        assert_eq!(node.drain_alone(&limit), 7, "{}", kind.name());
    }
}

#[test]
fn limits_that_are_not_local_take_no_part_when_a_node_decides_alone() {
    let clock = ManualClock::at(NOW);
    let node = Node::nodes(&clock, 1).remove(0);
    let open = Limit::gcra("open", tollgate::Quota::new(1, MONTH)).unwrap();
    let own = Limit::gcra("own", tollgate::Quota::new(3, MONTH)).unwrap();
    let own = own.on_outage(OutageMode::Local);
    let both = [open.charge("k"), own.charge("k")];
    let verdicts = [(); 4].map(|()| {
        node.line.then([Fault::Before, Fault::Before]);
        let decision = block_on(node.limiter.check(Admission::of(&both))).unwrap();
        assert_eq!(decision.degraded, Some(OutageMode::Local));
        decision.is_allowed()
    });
    assert_eq!(verdicts, [true, true, true, false]);
}

#[test]
fn a_denial_of_the_store_is_kept_in_the_outage() {
    for kind in Kind::ALL {
        let clock = ManualClock::at(NOW);
        let [spender, other] = &Node::nodes(&clock, 2)[..] else { panic!("two nodes") };
        let limit = local(kind, 10, MINUTE);
        assert!(spender.check(&limit, 10).is_allowed());
        // The other node has charged nothing, but has learned from the store that nothing is left.
        assert!(!other.check(&limit, 1).is_allowed());
        assert_eq!(other.drain_alone(&limit), 0, "{}", kind.name());
        assert_eq!(spender.drain_alone(&limit), 0, "{}: it had more than its share", kind.name());
    }
}

#[test]
fn nodes_that_share_a_limit_admit_no_more_than_what_was_left_of_it() {
    for kind in Kind::ALL {
        for period in [MINUTE, MONTH] {
            let clock = ManualClock::at(NOW);
            let nodes = Node::nodes(&clock, 2);
            let limit = local(kind, 10, period);
            assert!(nodes.iter().all(|node| node.check(&limit, 3).is_allowed()));
            let alone: u64 = nodes.iter().map(|node| node.drain_alone(&limit)).sum();
            assert_eq!(alone, 4, "{} per {period:?}: 6 of 10 were spent", kind.name());
        }
    }
}

#[test]
fn nodes_alone_admit_at_most_their_shares_together() {
    // Limit, nodes, and the sum of the shares: rounded down, but at least one each.
    let cases = [(10, 2, 10), (10, 3, 9), (100, 7, 98), (2, 3, 3), (1, 1, 1), (1_000, 16, 992)];
    for kind in Kind::ALL {
        for (units, count, together) in cases {
            for period in [Duration::from_millis(2), MINUTE, MONTH] {
                let clock = ManualClock::at(NOW);
                let limit = local(kind, units, period);
                let nodes = Node::nodes(&clock, count);
                let granted: u64 = nodes.iter().map(|node| node.drain_alone(&limit)).sum();
                let context = format!("{}: {units} per {period:?} by {count}", kind.name());
                assert_eq!(granted, together, "{context}");
            }
        }
    }
}

#[test]
fn a_long_outage_is_decided_by_the_share_of_the_quota() {
    for kind in Kind::ALL {
        for (seed, period) in [(1, Duration::from_millis(50)), (2, MINUTE), (3, MONTH)] {
            println!("{} with seed {seed}", kind.name());
            let clock = ManualClock::at(NOW);
            let node = Node::nodes(&clock, 3).remove(0);
            let limit = local(kind, 10, period);
            let share = limit.clone().replace_rule(limit.rule().scaled(1, 3).unwrap());
            let expected = Limiter::with_clock(memory(), clock.clone()).build();
            let mut rng = Rng::new(seed);
            for step in 0..300 {
                let pause = rng.below(u64::try_from(period.as_micros()).unwrap());
                clock.advance(Duration::from_micros(pause / 2));
                let cost = rng.between(1, 3);
                let alone = node.check_alone(&limit, cost);
                let same = expected.sync().check(charge(&share, "k", cost)).unwrap();
                let same = same.degraded(OutageMode::Local);
                assert_eq!(alone, same, "{}, seed {seed}, step {step}", kind.name());
            }
        }
    }
}

/// Whatever happened while healthy, alone a node with the whole quota never runs ahead of what the
/// store would have granted it, as long as what was spent before the outage counts.
fn never_runs_ahead(kind: Kind, seed: u64) {
    let mut rng = Rng::new(seed);
    let clock = ManualClock::at(NOW + rng.below(SECOND));
    let store = Arc::new(ReferenceStore::new());
    // Each could be alone with the whole quota.
    let nodes = [Node::new(&store, &clock, 1), Node::new(&store, &clock, 1)];
    let period = 2 * rng.between(5_000, 50_000);
    let limit = local(kind, rng.between(2, 9), Duration::from_micros(period));
    let pause = |rng: &mut Rng| clock.advance(Duration::from_micros(rng.below(period / 4)));
    for _ in 0..rng.between(5, 60) {
        pause(&mut rng);
        let node = usize::try_from(rng.below(2)).unwrap();
        nodes[node].check(&limit, rng.between(1, 2));
    }
    // The store answers this node once more; then its connection is cut.
    let last = nodes[0].check(&limit, 1);
    let (mut alone, mut by_store) = (0_u64, 0_u64);
    for step in 0..40 {
        pause(&mut rng);
        // From here on windows may start at other instants than those of the store.
        if clock.now() >= last.reset_at_ms * MS {
            break;
        }
        alone += u64::from(nodes[0].check_alone(&limit, 1).is_allowed());
        by_store += u64::from(nodes[1].check(&limit, 1).is_allowed());
        let context = format!("{}, seed {seed}, step {step}", kind.name());
        assert!(alone <= by_store, "{context}: {alone} alone, {by_store} by the store");
    }
}

#[test]
fn alone_a_node_never_runs_ahead_of_the_store() {
    for kind in Kind::ALL {
        for seed in 0..150 {
            never_runs_ahead(kind, seed);
        }
    }
}

#[test]
fn after_the_outage_the_store_decides_again() {
    let clock = ManualClock::at(NOW);
    let node = Node::nodes(&clock, 1).remove(0);
    let limit = local(Kind::Gcra, 10, MONTH);
    node.check(&limit, 1);
    assert_eq!(node.drain_alone(&limit), 9);
    assert_eq!(node.check(&limit, 1).remaining, 8, "the store has its own charges only");
    assert_eq!(node.drain_alone(&limit), 0, "the shadow does not forget what it granted");
}

#[test]
fn a_combination_is_all_or_nothing_alone_as_well() {
    let clock = ManualClock::at(NOW);
    let node = Node::nodes(&clock, 1).remove(0);
    let (wide, narrow) = (
        per_hour("wide", 10).on_outage(OutageMode::Local),
        per_hour("narrow", 2).on_outage(OutageMode::Local),
    );
    let charges = [wide.charge("k"), narrow.charge("k")];
    for expected in [true, true, false, false] {
        node.line.then([Fault::After]);
        let decision = block_on(node.limiter.check(&charges)).unwrap();
        assert_eq!(decision.is_allowed(), expected);
        let binding = decision.binding().unwrap();
        assert_eq!((binding.as_str(), decision.degraded), ("narrow", Some(OutageMode::Local)));
    }
    assert_eq!(node.drain_alone(&wide), 8);
}

#[test]
fn a_cost_above_the_share_but_not_above_the_limit_is_denied() {
    let clock = ManualClock::at(NOW);
    let nodes = Node::nodes(&clock, 4);
    let limit = local(Kind::Gcra, 10, MINUTE);
    let decision = nodes[0].check_alone(&limit, 7);
    assert_eq!(decision.verdict, Verdict::Denied, "the store may grant 7 of 10 when it is back");
    assert!(decision.retry_after_ms.unwrap() >= 1);
    assert!(nodes[0].check(&limit, 7).is_allowed());
}

#[test]
fn request_ids_are_respected_alone() {
    let clock = ManualClock::at(NOW);
    let node = Node::nodes(&clock, 1).remove(0);
    let limit = local(Kind::Gcra, 10, MONTH);
    let once = |cost: u64, id: &str| {
        node.line.then([Fault::Before, Fault::Before]);
        let charges = [charge(&limit, "k", cost)];
        let admission = Admission::of(&charges).request_id(RequestId::new(id).unwrap());
        block_on(node.limiter.check(&admission))
    };
    let first = once(3, "id").unwrap();
    assert_eq!((first.remaining, first.degraded), (7, Some(OutageMode::Local)));
    assert_eq!(once(3, "id").unwrap(), first, "a replay");
    let conflict = once(4, "id").unwrap_err();
    assert_eq!(conflict.code(), Code::IdempotencyConflict, "no mode decides a conflict");
    assert_eq!(once(3, "other").unwrap().remaining, 4);
    assert_eq!(node.drain_alone(&limit), 4);
}

#[test]
fn an_id_that_was_charged_while_healthy_is_not_charged_again_alone() {
    let clock = ManualClock::at(NOW);
    let node = Node::nodes(&clock, 1).remove(0);
    let limit = local(Kind::Gcra, 10, MONTH);
    let charges = [charge(&limit, "k", 10)];
    let admission = Admission::of(&charges).request_id(RequestId::new("id").unwrap());
    assert!(block_on(node.limiter.check(&admission)).unwrap().is_allowed());
    node.line.then([Fault::Before, Fault::Before]);
    let replay = block_on(node.limiter.check(&admission)).unwrap();
    assert!(replay.is_allowed(), "a retry of what was charged is not denied");
    assert_eq!(replay.degraded, Some(OutageMode::Local));
    assert_eq!(node.drain_alone(&limit), 0);
}

#[test]
fn a_replay_by_the_store_feeds_nothing() {
    let clock = ManualClock::at(NOW);
    let node = Node::nodes(&clock, 1).remove(0);
    let limit = local(Kind::Gcra, 10, MONTH);
    let charges = [charge(&limit, "k", 2)];
    let admission = Admission::of(&charges).request_id(RequestId::new("id").unwrap());
    for _ in 0..4 {
        block_on(node.limiter.check(&admission)).unwrap();
    }
    assert_eq!(node.drain_alone(&limit), 8);
}

#[test]
fn a_reset_clears_what_is_kept_for_outages() {
    let clock = ManualClock::at(NOW);
    let node = Node::nodes(&clock, 1).remove(0);
    let limit = local(Kind::Gcra, 10, MONTH);
    node.check(&limit, 10);
    block_on(node.limiter.reset(limit.charge("k"))).unwrap();
    assert_eq!(node.drain_alone(&limit), 10);
}

#[test]
fn a_reset_that_failed_hands_out_nothing() {
    let clock = ManualClock::at(NOW);
    let node = Node::nodes(&clock, 1).remove(0);
    let limit = local(Kind::Gcra, 10, MONTH);
    node.check(&limit, 10);
    node.line.then([Fault::Before, Fault::Before]);
    assert!(block_on(node.limiter.reset(limit.charge("k"))).is_err());
    assert_eq!(node.drain_alone(&limit), 0);
}

#[test]
fn a_refund_while_healthy_mints_nothing_for_the_outage() {
    let clock = ManualClock::at(NOW);
    let node = Node::nodes(&clock, 1).remove(0);
    let limit = local(Kind::Gcra, 10, MONTH);
    let taken = node.check(&limit, 6);
    let asked = charge(&limit, "k", 6);
    block_on(node.limiter.refund(asked.refund(taken.receipt().unwrap()))).unwrap();
    assert!(node.drain_alone(&limit) <= 10);
}

#[test]
fn a_changed_quota_keeps_what_was_spent_alone() {
    let clock = ManualClock::at(NOW);
    let node = Node::nodes(&clock, 1).remove(0);
    let limit = local(Kind::Gcra, 10, MONTH);
    node.check(&limit, 6);
    let smaller = limit.replace_rule(limit_of(Kind::SlidingLog, 8, MONTH).rule().clone());
    assert_eq!(node.drain_alone(&smaller), 2);
}

#[test]
fn an_algorithm_that_cannot_be_scaled_is_refused_and_not_opened() {
    let clock = ManualClock::at(NOW);
    let node = Node::nodes(&clock, 2).remove(0);
    let custom = Limit::new("custom", CustomAlgorithm::new(Allowance(5))).unwrap();
    let custom = custom.on_outage(OutageMode::Local);
    let scalable = local(Kind::Gcra, 10, MONTH);
    let healthy = [custom.charge("k"), charge(&scalable, "k", 5)];
    let decision = block_on(node.limiter.check(&healthy)).unwrap();
    assert_eq!((decision.is_allowed(), decision.degraded), (true, None));
    node.line.then([Fault::After, Fault::After]);
    let refused = block_on(node.limiter.check(custom.charge("k"))).unwrap();
    assert_eq!((refused.verdict, refused.degraded), (Verdict::Denied, Some(OutageMode::Closed)));
    let refused = block_on(node.limiter.check(&healthy)).unwrap();
    assert_eq!((refused.verdict, refused.degraded), (Verdict::Denied, Some(OutageMode::Closed)));
    assert_eq!(node.limiter.stats().degraded_closed, 2);
    assert_eq!(node.drain_alone(&scalable), 0, "the other key was charged all the same");
}

#[test]
fn shares_out_of_range_are_refused_by_name() {
    assert!(Share::new(1, 3).is_ok() && Share::new(1 << 32, 1 << 32).is_ok());
    for (numerator, denominator) in [(0, 1), (2, 1), (0, 0), (1, u64::MAX)] {
        let error = Share::new(numerator, denominator).unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("share")));
    }
}

#[test]
fn the_smallest_share_of_the_longest_quota_still_decides() {
    let longest = Duration::from_micros(1 << 52);
    for kind in [Kind::Gcra, Kind::TokenBucket, Kind::LeakyBucket, Kind::FixedWindow] {
        let clock = ManualClock::at(NOW);
        let store = Arc::new(ReferenceStore::new());
        let node = Node::new(&store, &clock, u32::MAX);
        let limit = local(kind, 1, longest);
        assert_eq!(node.drain_alone(&limit), 1, "{}", kind.name());
        clock.set(clock.now() * 2);
        assert_eq!(node.drain_alone(&limit), 0, "{}: nothing came back", kind.name());
    }
}
