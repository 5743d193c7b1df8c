//! Makes the golden vectors from the reference model.

use tollgate_core::{Cost, Decision, Micros, Now, Receipt};

use super::{Group, Op, SettledVector, Vector, VectorFile};
use crate::model::{Kind, Model, ModelQuota};
use crate::trace::{Event, Mix, Trace};

const SECOND: Micros = 1_000_000;
const DAY: Micros = 86_400 * SECOND;
const START: Micros = 1_700_000_000_000_000;
const SEED: u64 = 0x601D;
/// How many algorithms there were when the traces were first made.
const FIRST: usize = 6;
/// What a trace for vectors contains: what can be asked with a check and a peek.
const MIX: Mix =
    Mix { events_per_key: 70, floors: false, settles: false, changes: &[], extremes: false };

/// All vector files, made anew by the model.
#[must_use]
pub fn generate() -> Vec<VectorFile> {
    Kind::ALL.into_iter().map(file).collect()
}

fn file(kind: Kind) -> VectorFile {
    let mut groups: Vec<Group> = Vec::new();
    for (name, limit, period) in [
        ("three per second", 3, SECOND),
        ("seven per second and a half", 7, 1_500_000),
        ("a prime per day", 999_983, DAY),
        ("one per microsecond", 1, 1),
        ("a thousand per minute", 1_000, 60 * SECOND),
    ] {
        for (variant, quota) in ModelQuota::variants(kind, limit, period) {
            groups.push(tour(&format!("{name}{variant}"), quota));
        }
    }
    if kind == Kind::SlidingWindow {
        groups.push(race());
    }
    groups.push(ranges(kind));
    groups.push(settles(kind));
    groups.extend(changes(kind));
    groups.extend(Kind::ALL.map(|other| in_turn(kind, other)));
    groups.extend(traces(kind));
    VectorFile { algorithm: kind, groups }
}

/// A group while it is written.
struct Script {
    model: Model,
    change: Option<ModelQuota>,
    group: Group,
}

impl Script {
    fn new(name: &str, quota: ModelQuota) -> Self {
        let group = Group { name: name.to_owned(), quota, decisions: Vec::new() };
        Self { model: Model::new(quota), change: None, group }
    }

    fn change(&mut self, quota: ModelQuota) {
        self.model.change(quota);
        self.change = Some(quota);
    }

    fn ask(&mut self, op: Op, now_us: Micros, units: u64) -> Decision {
        let cost = Cost::new(units.clamp(1, Cost::MAX.get())).unwrap_or(Cost::ONE);
        let now = Now::at(now_us);
        let decision = match op {
            Op::Check => self.model.check(now, cost),
            Op::Peek | Op::Settle => self.model.peek(now, cost),
        };
        self.push(Vector { decision: decision.clone(), ..Vector::new(op, now_us, cost) });
        decision
    }

    fn push(&mut self, vector: Vector) {
        let change = self.change.take();
        self.group.decisions.push(Vector { change, ..vector });
    }

    /// The final cost of a charge of `units`; what it gave back, charged and dropped.
    fn settle(&mut self, now_us: Micros, units: u64, settled: (Receipt, u64, u64)) {
        let (receipt, to, max_debt) = settled;
        let (now, cost) = (Now::at(now_us), Cost::new(units).unwrap_or(Cost::ONE));
        let settlement = self.model.settle(now, cost, (receipt, to), max_debt);
        let until_us = if let Receipt::Until(until) = receipt { Some(until) } else { None };
        let settled = Some(SettledVector { until_us, to, max_debt, settlement });
        let decision = self.model.standing(now);
        self.push(Vector { settled, decision, ..Vector::new(Op::Settle, now_us, cost) });
    }

    fn take_up_to(&mut self, now_us: Micros, (min, max): (u64, u64)) -> Decision {
        let [cost, max] = [min, max].map(|units| Cost::new(units).unwrap_or(Cost::MAX));
        let decision = self.model.check_up_to(Now::at(now_us), cost, max);
        let (max, decided) = (Some(max), decision.clone());
        self.push(Vector { max, decision: decided, ..Vector::new(Op::Check, now_us, cost) });
        decision
    }

    fn check(&mut self, now_us: Micros, units: u64) -> Decision {
        self.ask(Op::Check, now_us, units)
    }
}

/// Every promise of a decision once: fresh, burst, exhausted, waiting, stepping back, expiry.
fn tour(name: &str, quota: ModelQuota) -> Group {
    let mut script = Script::new(name, quota);
    let most = quota.ceiling();
    script.ask(Op::Peek, START, 1);
    script.check(START, most + 1);
    script.check(START, 1);
    script.check(START + 333, most / 2);
    script.ask(Op::Peek, START + 333, most);
    // Spend what is left, exactly.
    let left = script.ask(Op::Peek, START + 1_001, 1).remaining;
    script.check(START + 1_001, left);
    let mut now = START + 1_001;
    for units in [1, 2, most] {
        let denied = script.check(now, units);
        let Some(wait @ 1..) = denied.retry_after_ms else {
            continue;
        };
        script.check(now + (wait - 1) * 1_000, units);
        script.ask(Op::Peek, now + wait * 1_000 - 1, units);
        script.ask(Op::Peek, now + wait * 1_000, units);
        now += wait * 1_000;
        script.check(now, units);
    }
    // Clocks that are behind the key.
    for back in [1, 1_000, 50_000, 1_500_000, 3_600 * SECOND] {
        script.check(now - back, 1);
        script.ask(Op::Peek, now - back, most);
    }
    // The instant the key is fresh again, one millisecond earlier, and long after.
    let reset = script.check(now, 1).reset_at_ms;
    script.ask(Op::Peek, (reset - 1) * 1_000, most);
    script.ask(Op::Peek, reset * 1_000, most);
    script.check(reset * 1_000, most);
    script.check(reset * 1_000 + 90 * DAY, 1);
    script.check(reset * 1_000, 1);
    script.check(reset * 1_000 + 90 * DAY + 7, most);
    script.group
}

/// Requests that take as many units as there are.
fn ranges(kind: Kind) -> Group {
    let quota_of = |limit| ModelQuota::variants(kind, limit, 7 * SECOND).swap_remove(0).1;
    let quota = quota_of(7);
    let mut script = Script::new("takes up to", quota);
    let most = quota.ceiling();
    script.take_up_to(START, (most + 1, most + 5));
    script.take_up_to(START, (1, 3));
    let denied = script.take_up_to(START + 10, (most - 2, most));
    let wait = denied.retry_after_ms.unwrap_or(1);
    script.take_up_to(START + 10 + (wait - 1) * 1_000, (most - 2, most));
    let mut now = START + 10 + wait * 1_000;
    script.take_up_to(now, (most - 2, 2 * most));
    for range in [(1, most), (2, 2)] {
        let denied = script.take_up_to(now, range);
        now += denied.retry_after_ms.unwrap_or(0) * 1_000;
        script.take_up_to(now, range);
    }
    // A range without a second number: the cost.
    script.take_up_to(now + 60 * SECOND, (2, 1));
    script.change(quota_of(3));
    script.take_up_to(now + 60 * SECOND, (1, 9));
    script.take_up_to(now + 90 * SECOND, (1, u64::from(u32::MAX)));
    script.group
}

/// Final costs below and above what was charged, into debt, to its bound, and out of it.
fn settles(kind: Kind) -> Group {
    let quota_of = |limit| ModelQuota::variants(kind, limit, 7 * SECOND).swap_remove(0).1;
    let quota = quota_of(7);
    let mut script = Script::new("settles", quota);
    let most = quota.ceiling();
    let receipt = |charged: &Decision| Receipt::Until(charged.reset_at_ms * 1_000);
    // Less, half a unit later; then all of it, and nothing is left to give back.
    let charged = script.check(START, most);
    script.settle(START + SECOND / 2, most, (receipt(&charged), most - 2, most));
    script.check(START + SECOND / 2, 1);
    script.settle(START + SECOND, most, (Receipt::Newest, 0, most));
    script.settle(START + SECOND, most, (Receipt::Newest, 0, most));
    // The same cost, one more, and into debt; a clock steps back meanwhile.
    let mut now = START + 30 * SECOND;
    let charged = script.check(now, 2);
    script.settle(now, 2, (receipt(&charged), 2, most));
    script.settle(now + 1, 2, (receipt(&charged), 3, most));
    script.settle(now + 2, 2, (receipt(&charged), most + 2, most));
    script.settle(now - SECOND, 2, (receipt(&charged), 4, most));
    for units in [1, most] {
        let denied = script.check(now + 3, units);
        let wait = denied.retry_after_ms.unwrap_or(1).max(1);
        script.ask(Op::Peek, now + 3 + (wait - 1) * 1_000, units);
        script.ask(Op::Peek, now + 3 + wait * 1_000, units);
    }
    // To the bound of the debt, which drops the rest; without debt; and given back out of it.
    script.settle(now + 4, 1, (Receipt::Newest, 100 * most, most));
    script.settle(now + 4, 1, (Receipt::Newest, 2, most));
    script.settle(now + 4, 1, (Receipt::Newest, 2, 0));
    script.settle(now + 5, most, (Receipt::Newest, 1, most));
    script.ask(Op::Peek, now + 5, 1);
    // Under another quota no more is owed than its ceiling, and the debt is still there after it.
    script.change(quota_of(3));
    script.check(now + 6, 1);
    script.change(quota);
    script.check(now + 7, 1);
    now += 60 * SECOND;
    script.check(now, most);
    script.settle(now, most, (Receipt::Newest, most + 3, 1));
    let denied = script.check(now, 1);
    now += denied.retry_after_ms.unwrap_or(0) * 1_000;
    script.check(now, 1);
    script.group
}

/// The worked race of a counter that is read and written in two acts: with 8 units in the previous
/// window, 2 in the current one and a quarter of the previous one still covered, the estimate is 4
/// of 5. Two nodes ask at that instant, and exactly one passes. Eight units passed under a limit of
/// 10, which was lowered since: counts stay true under another limit.
fn race() -> Group {
    let window_us = 60 * SECOND;
    let start = START.next_multiple_of(window_us);
    let limited = |limit| ModelQuota::SlidingWindow { limit, window_us, buckets: 1 };
    let name = "the worked race: previous 8, current 2, limit 5, overlap 0.25, one of two passes";
    let mut script = Script::new(name, limited(10));
    script.check(start, 8);
    script.check(start + 90 * SECOND, 2);
    script.change(limited(5));
    let quarter = start + 105 * SECOND;
    script.ask(Op::Peek, quarter, 1);
    script.check(quarter, 1);
    script.check(quarter, 1);
    script.group
}

/// From this kind to every other: spent units stay spent, the first contact keeps them.
fn changes(kind: Kind) -> Vec<Group> {
    let quota_of = |kind, limit, period| ModelQuota::variants(kind, limit, period).swap_remove(0).1;
    Kind::ALL
        .into_iter()
        .map(|other| {
            let (old, new) = (quota_of(kind, 10, 60 * SECOND), quota_of(other, 6, 7 * SECOND));
            let mut script = Script::new(&format!("changes to {}", other.name()), old);
            script.check(START, old.ceiling());
            script.check(START + 5, 1);
            script.change(new);
            script.ask(Op::Peek, START + 10, 1);
            let denied = script.check(START + 20, 2);
            let wait = denied.retry_after_ms.unwrap_or(1).max(1);
            script.check(START + 20 + (wait - 1) * 1_000, 2);
            script.check(START + 20 + wait * 1_000, 2);
            script.change(quota_of(other, 2, 7 * SECOND));
            script.check(START + 30 + wait * 1_000, 1);
            script.change(old);
            script.check(START + 40 + wait * 1_000, old.ceiling());
            script.check(START + 40 + wait * 1_000, 1);
            script.group
        })
        .collect()
}

/// Two quotas asked in turn, as while a change reaches one server after another: nothing that is
/// spent under one is forgotten under the other, and each decays by itself.
fn in_turn(kind: Kind, other: Kind) -> Group {
    let quota_of = |kind, limit, period| ModelQuota::variants(kind, limit, period).swap_remove(0).1;
    let (high, low) = (quota_of(kind, 10, 20 * SECOND), quota_of(other, 3, 20 * SECOND));
    let mut script = Script::new(&format!("in turn with {}", other.name()), high);
    script.check(START, 2);
    for step in 0..24 {
        // Faster than a unit of either, and then slower.
        let now = START + step * if step < 16 { 300_000 } else { 1_700_000 };
        let (quota, units) = if step % 2 == 0 { (low, 1) } else { (high, 3) };
        script.change(quota);
        script.ask(Op::Peek, now, units);
        script.check(now, units);
    }
    // What was cut off has decayed, and a clock steps back.
    script.change(high);
    script.check(START + 90 * SECOND, high.ceiling());
    script.change(low);
    script.check(START + 80 * SECOND, 1);
    script.change(high);
    script.check(START + 80 * SECOND, 1);
    script.group
}

/// The first algorithms, and those up to this one: a new one leaves the traces of others alone.
fn no_newer_than(kind: Kind) -> &'static [Kind] {
    let known = Kind::ALL.iter().position(|other| *other == kind).map_or(0, |index| index + 1);
    const { &Kind::ALL }.get(..known.max(FIRST)).unwrap_or(&[])
}

/// Random keys: whatever the tours do not think of.
fn traces(kind: Kind) -> Vec<Group> {
    let mut trace = Trace::new(kind, SEED, Mix { changes: no_newer_than(kind), ..MIX });
    let mut scripts: Vec<Script> = Vec::new();
    loop {
        let event = trace.next_event();
        if let Event::Fresh(quota) = event {
            if scripts.len() == 3 {
                break;
            }
            let name = format!("trace {} of seed {SEED:#x}", scripts.len());
            scripts.push(Script::new(&name, quota));
        }
        let Some(script) = scripts.last_mut() else {
            continue;
        };
        match event {
            Event::Change(quota) => script.change(quota),
            Event::Check(now, cost) => {
                let decision = script.check(now.reading(), cost.get());
                trace.observe(now, cost, &decision);
            }
            Event::Peek(now, cost) => {
                script.ask(Op::Peek, now.reading(), cost.get());
            }
            _ => {}
        }
    }
    scripts.into_iter().map(|script| script.group).collect()
}
