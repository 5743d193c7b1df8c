//! Seeded traces: what happens to a key, one event after another.
//!
//! A trace is a pure function of its seed and of the decisions it is shown: it aims at the very
//! instants that decisions promise something about (`retry_after`, one millisecond and one
//! microsecond before it), bursts, idles, lets keys expire, steps its clocks back, reads the clocks
//! of several skewed nodes, asks for huge costs and changes quotas.

mod quotas;

use tollgate_core::{Cost, Decision, MICROS_MAX, Micros, Now, Receipt, Verdict};

use crate::model::{Kind, ModelQuota};
use crate::rng::Rng;

pub use quotas::{changed_quota, random_quota};

/// Mid-November 2023: today's instants have as many bits.
const TODAY: Micros = 1_700_000_000_000_000;

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A fresh key under this quota.
    Fresh(ModelQuota),
    /// The key gets another quota.
    Change(ModelQuota),
    /// A charge is attempted.
    Check(Now, Cost),
    /// A decision is asked for, without charging.
    Peek(Now, Cost),
    /// A forecast is asked for.
    Forecast(Now),
    /// An earlier charge is settled.
    Settle(Now, Settling),
}

/// The final cost of an earlier charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settling {
    /// The units that were charged.
    pub cost: Cost,
    /// Which charge.
    pub receipt: Receipt,
    /// The units that it costs in the end.
    pub to: u64,
    /// How many units beyond its ceiling the key may owe.
    pub max_debt: u64,
}

/// What a trace contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// How many events a key sees before the next fresh one.
    pub events_per_key: u64,
    /// Decide some events at a floor above the reading, as stores do that have reclaimed states.
    pub floors: bool,
    /// Settle charges.
    pub settles: bool,
    /// Change quotas, to ones of these algorithms or of the same one; never if there are none.
    pub changes: &'static [Kind],
    /// Visit both ends of time, where products are largest.
    pub extremes: bool,
}

impl Mix {
    /// Everything: for algorithms.
    pub const ALGORITHM: Self = Self {
        events_per_key: 250,
        floors: true,
        settles: true,
        changes: &Kind::ALL,
        extremes: true,
    };
    /// What every store must agree on, whatever it forgets and whatever floor it chooses.
    pub const STORE: Self = Self {
        events_per_key: 60,
        floors: false,
        settles: true,
        changes: &Kind::ALL,
        extremes: false,
    };
}

/// A seeded trace. Show it every decision with [`Trace::observe`].
#[derive(Clone, Debug)]
pub struct Trace {
    rng: Rng,
    kind: Kind,
    mix: Mix,
    quota: ModelQuota,
    /// How long a full key takes to be fresh again.
    horizon: Micros,
    /// About how long one unit takes.
    unit: Micros,
    time: Micros,
    skews: [Micros; 3],
    left_on_key: u64,
    /// After a jump beyond every expiry the clock steps back by this.
    step_back: Option<Micros>,
    /// The first contact after a change is an ordinary check.
    first_contact: bool,
    denied: Option<(Now, u64)>,
    charges: Vec<(Cost, u64)>,
    /// The quotas that the key had.
    quotas: Vec<ModelQuota>,
}

impl Trace {
    /// A trace over keys of one kind of algorithm.
    #[must_use]
    pub fn new(kind: Kind, seed: u64, mix: Mix) -> Self {
        // Kinds differ under one seed, or a case that a seed misses would be missed for all.
        let mut rng = Rng::new(seed);
        rng = Rng::new(rng.next_u64() ^ kind as u64);
        let quota = random_quota(kind, &mut rng);
        Self {
            rng,
            kind,
            mix,
            quota,
            horizon: 1,
            unit: 1,
            time: TODAY,
            skews: [0; 3],
            left_on_key: 0,
            step_back: None,
            first_contact: false,
            denied: None,
            charges: Vec::new(),
            quotas: Vec::new(),
        }
    }

    /// The next event. The first one is [`Event::Fresh`].
    pub fn next_event(&mut self) -> Event {
        if self.left_on_key == 0 {
            let quota = random_quota(self.kind, &mut self.rng);
            return self.start_key(quota);
        }
        self.left_on_key -= 1;
        // A quota that has changed often changes back.
        let changes = if self.quotas.len() > 1 { 8 } else { 60 };
        if !self.mix.changes.is_empty() && self.rng.one_in(changes) {
            let quota = match self.quotas.len() {
                2.. if !self.rng.one_in(12) => self.rng.pick(&self.quotas, self.quota),
                _ => changed_quota(&self.quota, self.mix.changes, &mut self.rng),
            };
            self.quotas.retain(|known| *known != quota);
            self.quotas.push(quota);
            self.adopt_quota(quota);
            self.first_contact = true;
            return Event::Change(quota);
        }
        self.move_time();
        let now = self.reading();
        if core::mem::take(&mut self.first_contact) {
            let cost = self.cost(self.quota.ceiling());
            return Event::Check(now, cost);
        }
        match self.rng.below(100) {
            0..10 => Event::Peek(now, self.any_cost()),
            10..15 => Event::Forecast(now),
            15..21 if self.mix.settles && !self.charges.is_empty() => self.settle(now),
            _ => Event::Check(now, self.any_cost()),
        }
    }

    /// Starts over with a fresh key under this quota.
    pub fn start_key(&mut self, quota: ModelQuota) -> Event {
        self.left_on_key = self.mix.events_per_key;
        self.adopt_quota(quota);
        self.quotas = vec![quota];
        self.charges.clear();
        self.denied = None;
        self.first_contact = false;
        self.time = match self.rng.below(20) {
            0 if self.mix.extremes => self.rng.below(1_000_000),
            1 if self.mix.extremes => {
                MICROS_MAX - 1 - self.rng.below(self.horizon.min(MICROS_MAX / 2))
            }
            _ => TODAY + self.rng.below(1 << 40),
        };
        self.skews = [50_000, self.rng.of_any_size(1 << 26), self.rng.of_any_size(self.horizon)];
        Event::Fresh(quota)
    }

    /// Shows the trace what was decided, so that it can aim at the promised instants.
    pub fn observe(&mut self, now: Now, cost: Cost, decision: &Decision) {
        match (decision.verdict, decision.retry_after_ms) {
            (Verdict::Denied, Some(wait)) => self.denied = Some((now, wait)),
            (Verdict::Allowed, _) => {
                if self.charges.len() > 5 {
                    self.charges.remove(0);
                }
                self.charges.push((cost, decision.reset_at_ms));
            }
            _ => {}
        }
    }

    fn adopt_quota(&mut self, quota: ModelQuota) {
        self.quota = quota;
        self.horizon = quota.rule().map_or(1, |rule| rule.horizon()).max(1);
        self.unit = (self.horizon / quota.ceiling().max(1)).max(1);
    }

    fn move_time(&mut self) {
        if let Some(back) = self.step_back.take() {
            self.time = self.time.saturating_sub(back);
            return;
        }
        let (unit, horizon) = (self.unit, self.horizon);
        match self.rng.below(100) {
            0..40 => {}
            40..60 => self.forward(|rng| rng.below(2 * unit + 2)),
            60..72 => self.forward(|rng| rng.of_any_size(horizon)),
            72..75 => self.forward(|rng| horizon + rng.of_any_size(horizon)),
            75..87 => self.aim_at_retry(),
            87..92 => self.time = self.time.saturating_sub(self.rng.below(2_000)),
            92..95 => self.time = self.time.saturating_sub(self.rng.of_any_size(horizon)),
            95..97 => {
                self.forward(|rng| horizon + rng.below(2 * horizon));
                self.step_back = Some(self.rng.of_any_size(2 * horizon));
            }
            _ => self.aim_at_edge(),
        }
    }

    fn forward(&mut self, by: impl FnOnce(&mut Rng) -> Micros) {
        let by = by(&mut self.rng);
        self.time = (self.time + by).min(MICROS_MAX - 1);
    }

    /// Exactly when the last denial said, a microsecond or a millisecond before, or in between.
    fn aim_at_retry(&mut self) {
        if let Some((now, wait)) = self.denied {
            let early = self.rng.pick(&[0, 0, 1, 1_000, 999, 500], 0);
            let at = now.reading().saturating_add(wait.saturating_mul(1_000));
            self.time = at.saturating_sub(early).min(MICROS_MAX - 1);
        }
    }

    /// Around a boundary of a window, or of a millisecond.
    fn aim_at_edge(&mut self) {
        let edge = self.rng.pick(&[self.horizon, self.unit, 1_000], 1_000);
        let next = self.time.next_multiple_of(edge);
        let at = (next + self.rng.below(3)).saturating_sub(1);
        self.time = at.min(MICROS_MAX - 1);
    }

    /// One of the nodes reads its clock.
    fn reading(&mut self) -> Now {
        let skew = if self.rng.one_in(8) { self.rng.pick(&self.skews, 0) } else { 0 };
        let reading = if self.rng.one_in(2) {
            (self.time + skew).min(MICROS_MAX - 1)
        } else {
            self.time.saturating_sub(skew)
        };
        let now = Now::at(reading);
        if self.mix.floors && self.rng.one_in(20) {
            let floor = reading + self.rng.of_any_size(self.horizon);
            now.not_before(floor.min(MICROS_MAX - 1))
        } else {
            now
        }
    }

    fn any_cost(&mut self) -> Cost {
        let ceiling = self.quota.ceiling();
        match self.rng.below(100) {
            0..60 => Cost::ONE,
            60..94 => self.cost(ceiling),
            94..97 => clamped(ceiling.saturating_add(self.rng.between(1, 3))),
            _ => clamped(self.rng.of_any_size(u64::from(u32::MAX))),
        }
    }

    /// A cost that could be granted.
    fn cost(&mut self, ceiling: u64) -> Cost {
        match self.rng.below(4) {
            0 => clamped(ceiling - self.rng.below(2).min(ceiling - 1)),
            1 => clamped((ceiling / self.rng.between(1, 4)).max(1)),
            _ => clamped(self.rng.of_any_size(ceiling)),
        }
    }

    /// Nearly half of them refunds.
    fn settle(&mut self, now: Now) -> Event {
        let (taken, reset_at_ms) = self.rng.pick(&self.charges, (Cost::ONE, 0));
        let cost = match self.rng.below(3) {
            0 => clamped(self.rng.of_any_size(taken.get())),
            _ => taken,
        };
        let receipt =
            if self.rng.one_in(3) { Receipt::Newest } else { Receipt::Until(reset_at_ms * 1_000) };
        let ceiling = self.quota.ceiling();
        let to = match self.rng.below(20) {
            0..8 => 0,
            8..10 => self.rng.below(cost.get() + 1),
            10..19 => cost.get() + self.rng.of_any_size(ceiling.saturating_mul(2)),
            _ => self.rng.pick(&[u64::MAX, cost.get() + Cost::MAX.get()], 0),
        };
        let max_debt = match self.rng.below(40) {
            0..24 => ceiling,
            24..28 => 0,
            28 => u64::MAX,
            _ => self.rng.of_any_size(ceiling.saturating_mul(3)),
        };
        Event::Settle(now, Settling { cost, receipt, to, max_debt })
    }
}

/// The units as a cost, within what a cost can be.
fn clamped(units: u64) -> Cost {
    Cost::new(units.clamp(1, Cost::MAX.get())).unwrap_or(Cost::ONE)
}
