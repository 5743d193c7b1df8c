//! Pure algorithms: (quota, words, now, cost) in, (decision, next words) out.
//!
//! An algorithm depends on no store and reads no clock. Each has a folder of its own, whose
//! documentation states the mathematics, the layout of the words, and every rounding with its
//! direction. To add one: write the folder and register it below; the compiler names the rest.

mod change;
mod custom;
mod debt;
mod description;
mod divisor;
mod fields;
pub mod fixed_window;
pub mod gcra;
mod kind;
pub mod leaky_bucket;
mod limits;
mod packed_schedule;
mod schedule;
mod script;
pub mod sliding_log;
pub mod sliding_window;
#[cfg(test)]
mod tests;
pub mod token_bucket;

use core::fmt::Debug;

use crate::charge::Receipt;
use crate::cost::Cost;
use crate::decision::{Decision, Forecast};
use crate::error::Result;
use crate::quota::Quota;
use crate::rule::Rule;
use crate::state::{QuotaId, Words};
use crate::time::{Micros, Now};

pub use change::{Carried, migrate_state, next_state};
pub use custom::{Custom, CustomAlgorithm, CustomStep};
pub use debt::Debt;
pub use description::{Description, Renewal};
pub use fields::{OptionKind, OptionSpec, QuotaFields};
pub use fixed_window::Anchor;
pub use kind::built_in;
use kind::register;
pub use packed_schedule::PackedSchedule;
pub use schedule::{Schedule, ScheduleKind};
pub use script::ScriptedStep;

// The folder, the type, a tag that was never used, and whether only the whole quota explains a
// state.
register! {
    /// The generic cell rate algorithm.
    gcra::Gcra, 1, true;
    /// A bucket of tokens.
    token_bucket::TokenBucket, 2, true;
    /// A shaper.
    leaky_bucket::LeakyBucket, 3, true;
    /// A counter per window.
    fixed_window::FixedWindow, 4, false;
    /// An estimate over buckets.
    sliding_window::SlidingWindow, 5, false;
    /// The exact log.
    sliding_log::SlidingLog, 6, false;
}

/// A pure rate-limiting algorithm with its quota.
///
/// `words` is the state of the key under this very quota, empty for a fresh key; states of
/// another quota are carried over by [`migrate_state`] before they get here.
pub trait Algorithm: Debug + Send + Sync {
    /// The name in configurations, metrics and golden vectors.
    fn name(&self) -> &str;

    /// Identifies the quota. A state of another quota is carried over, never misread.
    fn quota_id(&self) -> QuotaId;

    /// The effective ceiling: no single cost above it is ever granted.
    fn ceiling(&self) -> u64;

    /// The longest time a key can stay different from a fresh one after one decision.
    fn horizon(&self) -> Micros;

    /// The time in which the ceiling is granted once in the long run: the window that is reported
    /// to clients.
    fn window(&self) -> Micros {
        self.horizon()
    }

    /// The quota in numbers.
    fn describe(&self) -> Description;

    /// Whether these words can be a state of this quota. Stores refuse others as corrupt.
    fn accepts(&self, words: &[u64]) -> bool;

    /// Decides, and says what to write when allowed. A denial writes nothing.
    fn step(&self, words: &[u64], now: Now, cost: Cost) -> Step;

    /// The decision for a cost without consuming it: the numbers are uncharged.
    fn peek(&self, words: &[u64], now: Now, cost: Cost) -> Decision;

    /// What could be spent, and when more, if nothing more is spent.
    fn forecast(&self, words: &[u64], now: Now) -> Forecast;

    /// Gives back at most what the charge behind `receipt` took and is still counted. Where units
    /// decay gradually, the rest of a unit is given back that has decayed in part.
    fn refund(&self, words: &[u64], now: Now, cost: Cost, receipt: Receipt) -> Refund;

    /// Charges whole units beyond the ceiling too, until the key owes `max_debt` units more than
    /// its ceiling. A state in debt is denied whatever the cost, with the wait until the debt is
    /// worked off.
    ///
    /// By default no further than the step grants: an algorithm that knows no debt.
    fn overdraw(&self, words: &[u64], now: Now, cost: Cost, max_debt: u64) -> Overdrawn {
        let _ = max_debt;
        let left = self.peek(words, now, Cost::ONE).remaining;
        let Ok(fits) = Cost::new(cost.get().min(left)) else { return Overdrawn::NOTHING };
        let write = self.step(words, now, fits).write;
        if write.is_some() { Overdrawn { units: fits.get(), write } } else { Overdrawn::NOTHING }
    }

    /// Counts a charge that another quota of the key has granted. Whatever there is room for
    /// counts; what exceeds the ceiling need not, where it would lock the key out for longer than a
    /// full debt does. It does not depend on a limit that is not part of the
    /// [family](QuotaId::family).
    fn count_granted(&self, words: &[u64], now: Now, cost: Cost) -> Option<Write> {
        let left = self.peek(words, now, Cost::ONE).remaining;
        let fits = Cost::new(cost.get().min(left)).ok()?;
        self.step(words, now, fits).write
    }

    /// What the key owes, beyond its ceiling too, rounded up to a whole unit, and the latest time
    /// its state has seen.
    fn debt(&self, words: &[u64], now: Now) -> Debt;

    /// The state of a key that owes this since the instant `debt.seen`.
    fn indebted(&self, debt: Debt) -> Write;

    /// The state of a key that owes as much as it can, but nothing beyond `until` if that can be
    /// expressed: what newcomers inherit from a throttled key that had to be forgotten.
    fn indebted_until(&self, until: Micros, at: Micros) -> Write {
        let _ = until;
        self.indebted(Debt { units: self.ceiling(), seen: at })
    }

    /// The shortest words that allow the same at `now` with the same numbers: what the record of a
    /// request id keeps, since only what was allowed is recorded.
    fn evidence(&self, words: &[u64], now: Now) -> Words {
        let _ = now;
        Words::new(words)
    }

    /// The algorithm of another quota id, if it is known here: states of that quota are carried
    /// over.
    fn recall(&self, quota_id: QuotaId) -> Option<Rule> {
        built_in(quota_id)
    }

    /// The same algorithm with `numerator / denominator` of the quota, rounded down, at least 1.
    ///
    /// # Errors
    /// `unsupported` when the algorithm cannot be scaled.
    fn scaled(&self, numerator: u64, denominator: u64) -> Result<Rule>;

    /// The step as a script, if there is one. Without one, a store that runs scripts decides in
    /// Rust and writes if nothing changed meanwhile.
    fn scripted_step(&self) -> Option<ScriptedStep> {
        None
    }

    /// Appends the numbers of the quota, as the script expects them.
    fn script_quota(&self, out: &mut Vec<u64>) {
        let _ = out;
    }

    /// Appends the numbers of a cost, as the script expects them: its units, unless it needs more.
    fn script_cost(&self, cost: Cost, out: &mut Vec<i64>) {
        out.push(i64::try_from(cost.get()).unwrap_or(i64::MAX));
    }

    /// The form of this algorithm whose whole state is one word, if the quota allows one.
    fn packed_schedule(&self) -> Option<PackedSchedule> {
        None
    }
}

/// What one step decided, and what is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The decision.
    pub decision: Decision,
    /// The next state; absent unless something was charged.
    pub write: Option<Write>,
}

/// The next state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The words to keep.
    pub words: Words,
    /// From this instant on, the words mean the same as none. Stores may forget them then.
    pub fresh_at: Micros,
}

/// What a refund gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refund {
    /// Units given back; one that had decayed in part, and of which the rest came back, counts as
    /// one. 0 means nothing.
    pub units: u64,
    /// The next state; absent when nothing was given back.
    pub write: Option<Write>,
}

impl Refund {
    /// Nothing to give back.
    pub const NOTHING: Self = Self { units: 0, write: None };
}

/// What was charged beyond a ceiling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdrawn {
    /// Units charged: the cost, or what there was room for.
    pub units: u64,
    /// The next state; absent when nothing was charged.
    pub write: Option<Write>,
}

impl Overdrawn {
    /// There was no room for one unit.
    pub const NOTHING: Self = Self { units: 0, write: None };
}

impl QuotaId {
    /// The part of the quota that decides what the words mean.
    ///
    /// Windows count units, whatever their limit (the last number) is: the counts stay true under
    /// another limit. Schedules keep an instant that only the whole quota explains.
    #[must_use]
    pub const fn family(self) -> Self {
        let [tag, a, b, _limit] = self.0;
        match Kind::of_tag(tag) {
            Some(kind) if !kind.limit_in_family() => Self([tag, a, b, 0]),
            _ => self,
        }
    }
}
