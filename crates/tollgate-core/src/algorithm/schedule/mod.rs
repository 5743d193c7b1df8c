//! The schedule: one calculation for gcra, token_bucket and leaky_bucket.
//!
//! # Mathematics
//! A unit takes T = P / L (period over limit) to come back, and B units fit at once, so a full debt
//! takes τ = T·B to decay. A key remembers one instant, TAT: when its debt will have decayed. With
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
//! # Time
//! A state has seen TAT − τ: an earlier reading finds a ≥ n + τ and is denied, so a clock that
//! steps back never refills. The scheme is the virtual scheduling of ITU-T I.371.

mod wide;

use super::limits::{self, PERIOD_MAX};
use super::packed_schedule::PackedSchedule;
use super::{Debt, Description, Kind, Refund, Renewal, Step, Write};
use crate::charge::Receipt;
use crate::cost::Cost;
use crate::decision::{Decision, Forecast};
use crate::error::Result;
use crate::state::QuotaId;
use crate::time::{Micros, Now};

use wide::Wide;

/// What the fields of a quota are called in errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    pub(super) limit: &'static str,
    pub(super) period: &'static str,
    pub(super) burst: &'static str,
    /// Units at once beside those that the field counts: one beside a queue, else none.
    pub(super) beside_burst: u64,
}

/// Whether an allowed request is to be delayed until its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    AtOnce,
    Shaped,
}

/// Exact arithmetic over one instant.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    wide: Wide,
    word: Option<PackedSchedule>,
}

impl Schedule {
    /// `quota.limit` units per period, and `at_once` units at once.
    pub(super) fn new(
        quota: crate::Quota,
        at_once: u64,
        fields: Fields,
        pace: Pace,
    ) -> Result<Self> {
        let limit = limits::units(fields.limit, quota.limit)?;
        let period = limits::period(fields.period, quota.period, 1, PERIOD_MAX)?;
        let divisor = gcd(period, limit);
        let (p, l) = (period / divisor, limit / divisor);
        // The largest burst that takes no longer than the longest period to come back.
        let most = u128::from(l) * u128::from(PERIOD_MAX) / u128::from(p);
        let most = u64::try_from(most).unwrap_or(u64::MAX).min(limits::UNITS_MAX);
        let beside = fields.beside_burst;
        let at_once = limits::in_range(fields.burst, at_once, 1 - beside, most - beside)?;
        Ok(Self::from_parts(p, l, at_once + beside, pace))
    }

    fn from_parts(p: u64, l: u64, burst: u64, pace: Pace) -> Self {
        Self {
            wide: Wide { p, l, burst, pace },
            word: PackedSchedule::new(p, l, burst, pace == Pace::Shaped),
        }
    }

    /// Rebuilds the schedule from a stored quota id, if it is valid.
    pub(super) fn from_quota_id(quota_id: QuotaId, pace: Pace) -> Option<Self> {
        let [_, p, l, burst] = quota_id.0;
        let units_fit = |units: u64| (1..=limits::UNITS_MAX).contains(&units);
        let fits = (1..=PERIOD_MAX).contains(&p)
            && units_fit(l)
            && units_fit(burst)
            && gcd(p, l) == 1
            && u128::from(p) * u128::from(burst) <= u128::from(l) * u128::from(PERIOD_MAX);
        fits.then(|| Self::from_parts(p, l, burst, pace))
    }

    pub(super) fn quota_id(&self, kind: Kind) -> QuotaId {
        QuotaId([kind.tag(), self.wide.p, self.wide.l, self.wide.burst])
    }

    pub(super) fn burst(&self) -> u64 {
        self.wide.burst
    }

    /// The same rate and burst, both times `numerator / denominator`.
    pub(super) fn scaled(&self, numerator: u64, denominator: u64) -> Self {
        let Wide { p, l, burst, pace } = self.wide;
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
        Self::from_parts(p, l, burst, pace)
    }

    pub(super) fn horizon(&self) -> Micros {
        self.wide.horizon()
    }

    pub(super) fn describe(&self) -> Description {
        let Wide { p, l, burst, pace } = self.wide;
        Description::new(burst, l, p, Renewal::Steady).shaped(pace == Pace::Shaped)
    }

    pub(super) fn accepts(&self, words: &[u64]) -> bool {
        self.wide.accepts(words)
    }

    pub(super) fn step(&self, words: &[u64], now: Now, cost: Cost) -> Step {
        self.wide.step(words, now, cost)
    }

    pub(super) fn peek(&self, words: &[u64], now: Now, cost: Cost) -> Decision {
        self.wide.peek(words, now, cost)
    }

    pub(super) fn forecast(&self, words: &[u64], now: Now) -> Forecast {
        self.wide.forecast(words, now)
    }

    pub(super) fn refund(&self, words: &[u64], now: Now, cost: Cost, receipt: Receipt) -> Refund {
        self.wide.refund(words, now, cost, receipt)
    }

    pub(super) fn debt(&self, words: &[u64], now: Now) -> Debt {
        self.wide.debt(words, now)
    }

    pub(super) fn indebted(&self, debt: Debt) -> Write {
        self.wide.indebted(debt)
    }

    pub(super) fn indebted_until(&self, until: Micros, at: Micros) -> Write {
        self.wide.indebted_until(until, at)
    }

    pub(super) fn packed_schedule(&self) -> Option<PackedSchedule> {
        self.word
    }

    pub(super) fn script_quota(&self, out: &mut Vec<u64>) {
        out.push(self.wide.l);
    }

    pub(super) fn script_cost(&self, cost: Cost, out: &mut Vec<i64>) {
        self.wide.script_cost(cost, out);
    }
}

/// The whole [`Algorithm`](super::Algorithm) of a type that is a schedule, registered under its
/// name.
macro_rules! schedule_algorithm {
    ($type:ident, $pace:expr) => {
        impl $type {
            /// Rebuilds the algorithm from the quota id stored with a state.
            pub(super) fn from_quota_id(quota_id: $crate::state::QuotaId) -> Option<Self> {
                $crate::algorithm::schedule::Schedule::from_quota_id(quota_id, $pace).map(Self)
            }
        }

        impl $crate::algorithm::Algorithm for $type {
            fn name(&self) -> &str {
                $crate::algorithm::Kind::$type.name()
            }

            fn quota_id(&self) -> $crate::state::QuotaId {
                self.0.quota_id($crate::algorithm::Kind::$type)
            }

            fn ceiling(&self) -> u64 {
                self.0.burst()
            }

            fn horizon(&self) -> $crate::time::Micros {
                self.0.horizon()
            }

            fn describe(&self) -> $crate::algorithm::Description {
                self.0.describe()
            }

            fn accepts(&self, words: &[u64]) -> bool {
                self.0.accepts(words)
            }

            fn step(
                &self,
                words: &[u64],
                now: $crate::time::Now,
                cost: $crate::cost::Cost,
            ) -> $crate::algorithm::Step {
                self.0.step(words, now, cost)
            }

            fn peek(
                &self,
                words: &[u64],
                now: $crate::time::Now,
                cost: $crate::cost::Cost,
            ) -> $crate::decision::Decision {
                self.0.peek(words, now, cost)
            }

            fn forecast(
                &self,
                words: &[u64],
                now: $crate::time::Now,
            ) -> $crate::decision::Forecast {
                self.0.forecast(words, now)
            }

            fn refund(
                &self,
                words: &[u64],
                now: $crate::time::Now,
                cost: $crate::cost::Cost,
                receipt: $crate::charge::Receipt,
            ) -> $crate::algorithm::Refund {
                self.0.refund(words, now, cost, receipt)
            }

            fn debt(&self, words: &[u64], now: $crate::time::Now) -> $crate::algorithm::Debt {
                self.0.debt(words, now)
            }

            fn indebted(&self, debt: $crate::algorithm::Debt) -> $crate::algorithm::Write {
                self.0.indebted(debt)
            }

            fn indebted_until(
                &self,
                until: $crate::time::Micros,
                at: $crate::time::Micros,
            ) -> $crate::algorithm::Write {
                self.0.indebted_until(until, at)
            }

            fn scaled(
                &self,
                numerator: u64,
                denominator: u64,
            ) -> $crate::error::Result<$crate::rule::Rule> {
                Ok($crate::rule::Rule::new(Self(self.0.scaled(numerator, denominator))))
            }

            fn packed_schedule(&self) -> Option<$crate::algorithm::PackedSchedule> {
                self.0.packed_schedule()
            }

            fn scripted_step(&self) -> Option<$crate::algorithm::ScriptedStep> {
                Some($crate::algorithm::ScriptedStep::Schedule)
            }

            fn script_quota(&self, out: &mut Vec<u64>) {
                self.0.script_quota(out);
            }

            fn script_cost(&self, cost: $crate::cost::Cost, out: &mut Vec<i64>) {
                self.0.script_cost(cost, out);
            }
        }
    };
}
pub(super) use schedule_algorithm;

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn gcd_wide(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd_wide(b, a % b) }
}
