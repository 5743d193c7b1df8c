//! The schedule: one calculation for gcra, token_bucket and leaky_bucket.
//!
//! # Mathematics
//! A unit takes T = P / L (period over limit) to come back, and B units fit at once, so a full debt
//! takes τ = T·B to decay. A key keeps one instant, TAT: when its debt will have decayed. With
//! a = max(TAT, n), a cost q is allowed iff a ≤ n + τ − T·q, and then TAT := a + T·q.
//! `remaining` = ⌊(τ − (TAT − n)) / T⌋, `reset_at` = TAT, `retry_after` = a + T·q − τ − n.
//! A cost above B is never granted. A fresh key admits exactly B.
//!
//! # State
//! With g = gcd(P, L), p = P/g and l = L/g, T is p/l microseconds. Words: `[whole, fraction]` with
//! TAT = whole + fraction/l, 0 ≤ fraction < l. Quota id: `[tag, p, l, B]`. When l ≤ 1024 and τ·l ≤
//! 2^61 the same state also fits one word, TAT·l.
//!
//! # Rounding
//! The schedule itself is exact: nothing is rounded, so there is no drift after any number of
//! steps. Only reported numbers are: units down, times up to whole milliseconds. The debt carried
//! to another quota is rounded up to a whole unit.
//!
//! # Giving back
//! q units of a charge that left TAT_A set TAT := TAT − min(T·q, max(0, TAT_A − n)): the part of
//! the charge that has not decayed, to the last fraction. The units reported are rounded up, so
//! that a part of a unit counts as one.
//!
//! # Debt
//! Charging beyond the ceiling sets TAT := a + T·q for the largest whole q, up to the units asked
//! for, with a + T·q ≤ n + τ + T·D, where D is the largest debt. No debt ends later than 2^53
//! microseconds after the epoch. The formulas above hold for such a TAT too.
//!
//! # Time
//! A state has seen TAT − τ: an earlier reading finds a ≥ n + τ and is denied, so a clock that
//! steps back never refills. What lies more than a minute ahead is taken for debt when another
//! quota asks what is owed. The scheme is the virtual scheduling of ITU-T I.371.

mod wide;

use core::fmt::Debug;
use core::marker::PhantomData;

use super::limits::{self, PERIOD_MAX};
use super::packed_schedule::PackedSchedule;
use super::{
    Algorithm, Debt, Description, Kind, Overdrawn, Refund, Renewal, ScriptedStep, Step, Write,
};
use crate::charge::Receipt;
use crate::cost::Cost;
use crate::decision::{Decision, Forecast};
use crate::error::Result;
use crate::quota::Quota;
use crate::rule::Rule;
use crate::state::QuotaId;
use crate::time::{MICROS_MAX, Micros, Now};

use wide::{View, Wide, narrow};

/// The names of the fields of a quota in errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    pub(super) limit: &'static str,
    pub(super) period: &'static str,
    pub(super) burst: &'static str,
    /// Units at once beside those that the field counts: one beside a queue, else none.
    pub(super) beside_burst: u64,
}

/// Which of the algorithms a schedule is.
pub trait ScheduleKind: Debug + Send + Sync + 'static {
    /// Its registration.
    const KIND: Kind;
    /// Whether an allowed request is to be delayed until its turn.
    const IS_SHAPED: bool = false;
}

/// An algorithm whose state is one instant: [`Gcra`](super::Gcra),
/// [`TokenBucket`](super::TokenBucket) or [`LeakyBucket`](super::LeakyBucket).
#[derive(Debug)]
pub struct Schedule<K> {
    wide: Wide,
    packed: Option<PackedSchedule>,
    kind: PhantomData<K>,
}

impl<K> Clone for Schedule<K> {
    fn clone(&self) -> Self {
        Self { kind: PhantomData, ..*self }
    }
}

impl<K: ScheduleKind> Schedule<K> {
    /// `quota.limit` units per period, and `at_once` units at once.
    pub(super) fn of(quota: Quota, at_once: u64, fields: Fields) -> Result<Self> {
        let limit = limits::units(fields.limit, quota.limit)?;
        let period = limits::period(fields.period, quota.period, 1, PERIOD_MAX)?;
        let divisor = gcd(period, limit);
        let (p, l) = (period / divisor, limit / divisor);
        // The largest burst that takes no longer than the longest period to come back.
        let most = u128::from(l) * u128::from(PERIOD_MAX) / u128::from(p);
        let most = u64::try_from(most).unwrap_or(u64::MAX).min(limits::UNITS_MAX);
        let beside = fields.beside_burst;
        let at_once = limits::in_range(fields.burst, at_once, 1 - beside, most - beside)?;
        Ok(Self::from_parts(p, l, at_once + beside))
    }

    fn from_parts(p: u64, l: u64, burst: u64) -> Self {
        let is_shaped = K::IS_SHAPED;
        Self {
            wide: Wide { p, l, burst, is_shaped },
            packed: PackedSchedule::new(p, l, burst, is_shaped),
            kind: PhantomData,
        }
    }

    /// Rebuilds the algorithm from the quota id stored with a state, if it is valid.
    pub(super) fn from_quota_id(quota_id: QuotaId) -> Option<Self> {
        let [_, p, l, burst] = quota_id.0;
        let units_fit = |units: u64| (1..=limits::UNITS_MAX).contains(&units);
        let fits = (1..=PERIOD_MAX).contains(&p)
            && units_fit(l)
            && units_fit(burst)
            && gcd(p, l) == 1
            && u128::from(p) * u128::from(burst) <= u128::from(l) * u128::from(PERIOD_MAX);
        fits.then(|| Self::from_parts(p, l, burst))
    }
}

impl<K: ScheduleKind> Algorithm for Schedule<K> {
    fn name(&self) -> &str {
        K::KIND.name()
    }

    fn quota_id(&self) -> QuotaId {
        QuotaId([K::KIND.tag(), self.wide.p, self.wide.l, self.wide.burst])
    }

    fn ceiling(&self) -> u64 {
        self.wide.burst
    }

    fn horizon(&self) -> Micros {
        self.wide.micros_up(self.wide.full())
    }

    fn describe(&self) -> Description {
        let Wide { p, l, burst, is_shaped } = self.wide;
        Description::new(burst, l, p, Renewal::Steady).shaped(is_shaped)
    }

    fn accepts(&self, words: &[u64]) -> bool {
        match words {
            [whole, fraction] => *whole < 2 * MICROS_MAX && *fraction < self.wide.l,
            other => other.is_empty(),
        }
    }

    fn step(&self, words: &[u64], now: Now, cost: Cost) -> Step {
        let view = View::new(&self.wide, words, now);
        if !view.grants(cost) {
            return Step { decision: view.uncharged(cost), write: None };
        }
        let next = view.start + self.wide.units(cost.get());
        let decision =
            Decision::allowed(self.wide.burst, view.units_left(next), self.wide.ms_up(next))
                .after(view.delay_ms());
        Step { decision, write: Some(self.wide.write(next)) }
    }

    fn peek(&self, words: &[u64], now: Now, cost: Cost) -> Decision {
        View::new(&self.wide, words, now).uncharged(cost)
    }

    fn forecast(&self, words: &[u64], now: Now) -> Forecast {
        let view = View::new(&self.wide, words, now);
        let spendable = view.units_left(view.start);
        // One more unit is there once the debt has room for spendable + 1.
        let next_unit_at_ms = (spendable < self.wide.burst).then(|| {
            self.wide.ms_up(view.start + self.wide.units(spendable + 1) - self.wide.full())
        });
        Forecast::new(self.wide.burst, spendable, next_unit_at_ms, view.reset_at_ms())
    }

    fn refund(&self, words: &[u64], now: Now, cost: Cost, receipt: Receipt) -> Refund {
        let view = View::new(&self.wide, words, now);
        // The charge holds the schedule up to its own end; what lies before now came back already.
        // Of a unit that has come back in part the rest is given back.
        let end = match receipt {
            Receipt::Until(at) => self.wide.end_of_charge(view.start, at),
            Receipt::Newest => view.start,
        };
        let given = end.saturating_sub(view.at).min(self.wide.units(cost.get()));
        if given == 0 {
            return Refund::NOTHING;
        }
        let units = narrow(given.div_ceil(u128::from(self.wide.p)));
        Refund { units, write: Some(self.wide.write(view.start - given)) }
    }

    fn overdraw(&self, words: &[u64], now: Now, cost: Cost, max_debt: u64) -> Overdrawn {
        let view = View::new(&self.wide, words, now);
        let room = self.wide.latest(view.at, max_debt).saturating_sub(view.start);
        let units = narrow(room / u128::from(self.wide.p)).min(cost.get());
        if units == 0 {
            return Overdrawn::NOTHING;
        }
        Overdrawn { units, write: Some(self.wide.write(view.start + self.wide.units(units))) }
    }

    /// Up to the ceiling, to the last fraction of a unit: a full key stays full.
    fn count_granted(&self, words: &[u64], now: Now, cost: Cost) -> Option<Write> {
        let view = View::new(&self.wide, words, now);
        let end = (view.start + self.wide.units(cost.get())).min(view.at + self.wide.full());
        (end > view.start).then(|| self.wide.write(end))
    }

    /// The state has seen TAT − τ, as far as clocks may differ. What lies further ahead is debt.
    fn debt(&self, words: &[u64], now: Now) -> Debt {
        let (tat, now) = (self.wide.tat(words), now.effective());
        let seen_by_state = tat.saturating_sub(self.wide.full());
        let latest = self.wide.scaled((now + CLOCKS_DIFFER).min(MICROS_MAX - 1));
        let seen = seen_by_state.min(latest).max(self.wide.scaled(now));
        let owed = tat.saturating_sub(seen).div_ceil(u128::from(self.wide.p));
        Debt { units: narrow(owed), seen: narrow(seen / u128::from(self.wide.l)) }
    }

    fn indebted(&self, debt: Debt) -> Write {
        // What is owed is a part of a unit less than these units: a debt that ends last stays a
        // state.
        let last = self.wide.scaled(2 * MICROS_MAX) - 1;
        let end = self.wide.scaled(debt.seen) + self.wide.units(debt.units);
        self.wide.write(end.min(last))
    }

    fn indebted_until(&self, until: Micros, at: Micros) -> Write {
        let full = self.wide.scaled(at) + self.wide.full();
        self.wide.write(self.wide.scaled(until).clamp(self.wide.scaled(at), full))
    }

    /// The same rate and burst, both times `numerator / denominator`.
    fn scaled(&self, numerator: u64, denominator: u64) -> Result<Rule> {
        let Wide { p, l, burst, .. } = self.wide;
        // The rate l/p becomes l·numerator / (p·denominator); both must stay in range.
        let rate_up = u128::from(l) * u128::from(numerator.max(1));
        let rate_down = u128::from(p) * u128::from(denominator.max(1));
        let common = gcd_wide(rate_up, rate_down);
        let (mut up, mut down) = (rate_up / common, rate_down / common);
        while down > u128::from(PERIOD_MAX) || up > u128::from(limits::UNITS_MAX) {
            // Out of range only for absurd shares: round the rate down, never up.
            (up, down) = match up / 2 {
                0 => (1, u128::from(PERIOD_MAX)),
                half => (half, down.div_ceil(2)),
            };
        }
        let up = u64::try_from(up.max(1)).unwrap_or(limits::UNITS_MAX);
        let down = u64::try_from(down).unwrap_or(PERIOD_MAX);
        let common = gcd(down, up);
        let (p, l) = (down / common, up / common);
        let longest = u128::from(l) * u128::from(PERIOD_MAX) / u128::from(p);
        let burst = limits::share(burst, numerator, denominator);
        let burst = burst.min(u64::try_from(longest).unwrap_or(u64::MAX)).max(1);
        Ok(Rule::new(Self::from_parts(p, l, burst)))
    }

    fn scripted_step(&self) -> Option<ScriptedStep> {
        Some(ScriptedStep::Schedule)
    }

    fn script_quota(&self, out: &mut Vec<u64>) {
        out.push(self.wide.l);
    }

    /// What a cost takes and the room it leaves, each as whole microseconds and a fraction: all the
    /// products that the script would need. There is no room below a cost that never fits.
    fn script_cost(&self, cost: Cost, out: &mut Vec<i64>) {
        let l = u128::from(self.wide.l);
        let signed = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
        let takes = self.wide.units(cost.get());
        let room = self.wide.burst.checked_sub(cost.get()).map(|units| self.wide.units(units));
        let (whole, fraction) = room.map_or((-1, 0), |room| (signed(room / l), signed(room % l)));
        // What is never granted is never added either: it need not be exact.
        let takes = if room.is_some() { takes } else { 0 };
        out.extend([signed(takes / l), signed(takes % l), whole, fraction]);
    }

    fn packed_schedule(&self) -> Option<PackedSchedule> {
        self.packed
    }
}

/// By how much the clocks of nodes may differ, as far as stores keep states for it: their slack.
const CLOCKS_DIFFER: Micros = 60_000_000;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn gcd_wide(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd_wide(b, a % b) }
}
