//! Algorithms that users write: a plain type with a pure step and a state of a few integers.
//!
//! [`CustomAlgorithm`] turns one into an [`Algorithm`] that runs on every store. Its quota id is
//! made of the name and the parameters: a state made under other parameters is carried over if
//! [`Custom::from_parameters`] can read it, else refused as corrupt; never read as a fresh key.

use core::fmt::Debug;

use super::script::EXACT_MAX;
use super::{Algorithm, Debt, Description, Refund, Renewal, ScriptedStep, Step, Write, built_in};
use crate::charge::Receipt;
use crate::cost::Cost;
use crate::decision::{Decision, Forecast};
use crate::error::{Code, Error, Result};
use crate::rule::Rule;
use crate::state::{QuotaId, Words};
use crate::time::{Micros, Now, to_ms_up};

/// A user's own algorithm.
///
/// ```
/// use tollgate_core::algorithm::{Custom, CustomAlgorithm, CustomStep};
/// use tollgate_core::{Cost, Decision, Limit, Limiter, MICROS_MAX, Micros, Now};
///
/// /// A number of units per key, which never come back.
/// #[derive(Debug)]
/// struct Trial {
///     units: u64,
/// }
///
/// impl Custom for Trial {
///     type State = u64; // Units spent.
///     const NAME: &'static str = "trial";
///
///     fn parameters(&self) -> [u64; 3] {
///         [self.units, 0, 0]
///     }
///
///     fn ceiling(&self) -> u64 {
///         self.units
///     }
///
///     fn horizon(&self) -> Micros {
///         MICROS_MAX
///     }
///
///     fn encode(&self, spent: &u64) -> Vec<u64> {
///         vec![*spent]
///     }
///
///     fn decode(&self, words: &[u64]) -> Option<u64> {
///         words.first().copied().filter(|spent| *spent <= self.units)
///     }
///
///     fn step(&self, spent: Option<&u64>, _: Now, cost: Cost) -> CustomStep<u64> {
///         let left = self.units - spent.copied().unwrap_or(0);
///         match left.checked_sub(cost.get()) {
///             Some(left) => CustomStep {
///                 decision: Decision::allowed(self.units, left, 0),
///                 next: Some((self.units - left, MICROS_MAX)),
///             },
///             None => {
///                 CustomStep { decision: Decision::never(self.units, left, 0), next: None }
///             }
///         }
///     }
/// }
///
/// let limiter = Limiter::in_memory();
/// let trial = Limit::new("trial", CustomAlgorithm::new(Trial { units: 2 }))?;
/// let allowed = [(); 3].map(|()| limiter.sync().check(trial.charge("ada")));
/// let allowed = allowed.map(|decided| decided.is_ok_and(|decision| decision.is_allowed()));
/// assert_eq!(allowed, [true, true, false]);
/// # Ok::<(), tollgate_core::Error>(())
/// ```
pub trait Custom: Debug + Send + Sync + 'static {
    /// The state of a key.
    type State;

    /// A name of its own: two algorithms of one name would read each other's states.
    const NAME: &'static str;

    /// The numbers of the quota; a change of them is a change of the quota.
    fn parameters(&self) -> [u64; 3];

    /// The algorithm with these parameters, so that states made under them can be carried over to
    /// others. By default there is none: such states are refused as corrupt.
    #[must_use]
    fn from_parameters(parameters: [u64; 3]) -> Option<Self>
    where
        Self: Sized,
    {
        let _ = parameters;
        None
    }

    /// The effective ceiling: no single cost above it is ever granted.
    fn ceiling(&self) -> u64;

    /// The longest time a key can stay different from a fresh one after one decision.
    fn horizon(&self) -> Micros;

    /// The quota in numbers, for programs that show it: unless stated otherwise, the ceiling per
    /// horizon.
    fn describe(&self) -> Description {
        let ceiling = self.ceiling();
        Description::new(ceiling, ceiling, self.horizon(), Renewal::Unstated)
    }

    /// The state as integers.
    fn encode(&self, state: &Self::State) -> Vec<u64>;

    /// The state of these integers; `None` when they cannot be one.
    fn decode(&self, words: &[u64]) -> Option<Self::State>;

    /// Decides. Pure: the same arguments give the same answer. A fresh key has no state.
    fn step(&self, state: Option<&Self::State>, now: Now, cost: Cost) -> CustomStep<Self::State>;

    /// The step in Lua, for stores that can run it next to their data; without one they race.
    ///
    /// A function `function(words, now, cost, parameters) … end` over plain integers below 2^53:
    /// the words of the state after the charge and the instant from which they mean the same as
    /// none, or nothing when the cost is not granted. `words` is empty for a fresh key. It must
    /// agree with [`Custom::step`] on every input: the differential check of the testkit compares
    /// them.
    fn script(&self) -> Option<&'static str> {
        None
    }

    /// The state of a key that owes `units` at `at`: how debts of other quotas are carried over.
    ///
    /// The default takes them with one step on a fresh key; without a state if that is refused.
    fn carry_over(&self, units: u64, at: Micros) -> Option<(Self::State, Micros)> {
        let cost = Cost::new(units.min(Cost::MAX.get())).ok()?;
        self.step(None, Now::at(at), cost).next
    }
}

/// What a user's step decided.
#[derive(Clone, Debug)]
pub struct CustomStep<S> {
    /// The decision, with the numbers after the charge when it is allowed.
    pub decision: Decision,
    /// The next state and the instant from which it means the same as none; only when allowed.
    pub next: Option<(S, Micros)>,
}

/// Runs a [`Custom`] algorithm on every store.
#[derive(Clone, Debug)]
pub struct CustomAlgorithm<C>(C);

impl<C: Custom> CustomAlgorithm<C> {
    /// Wraps the algorithm.
    pub const fn new(custom: C) -> Self {
        Self(custom)
    }

    fn run(&self, words: &[u64], now: Now, cost: Cost) -> CustomStep<C::State> {
        let state = if words.is_empty() { None } else { self.0.decode(words) };
        self.0.step(state.as_ref(), now, cost)
    }

    fn write(&self, next: &(C::State, Micros)) -> Write {
        Write { words: self.0.encode(&next.0).into(), fresh_at: next.1 }
    }

    /// Uncharged numbers are found by asking for more than could ever be granted; where no cost is
    /// that large, by asking for one unit and counting it back.
    fn standing(&self, words: &[u64], now: Now) -> Decision {
        if self.0.ceiling() < Cost::MAX.get() {
            return self.run(words, now, Cost::MAX).decision;
        }
        let mut decision = self.run(words, now, Cost::ONE).decision;
        decision.remaining = decision.remaining.saturating_add(u64::from(decision.is_allowed()));
        decision
    }
}

impl<C: Custom> Algorithm for CustomAlgorithm<C> {
    fn name(&self) -> &str {
        C::NAME
    }

    fn quota_id(&self) -> QuotaId {
        let [a, b, c] = self.0.parameters();
        QuotaId([name_tag(C::NAME), a, b, c])
    }

    fn ceiling(&self) -> u64 {
        self.0.ceiling()
    }

    fn horizon(&self) -> Micros {
        self.0.horizon()
    }

    fn describe(&self) -> Description {
        self.0.describe()
    }

    fn accepts(&self, words: &[u64]) -> bool {
        words.is_empty() || self.0.decode(words).is_some()
    }

    fn step(&self, words: &[u64], now: Now, cost: Cost) -> Step {
        let CustomStep { decision, next } = self.run(words, now, cost);
        let write = next.filter(|_| decision.is_allowed()).map(|next| self.write(&next));
        Step { decision, write }
    }

    fn peek(&self, words: &[u64], now: Now, cost: Cost) -> Decision {
        let mut decision = self.run(words, now, cost).decision;
        if decision.is_allowed() {
            let standing = self.standing(words, now);
            decision.remaining = standing.remaining;
            decision.reset_at_ms = standing.reset_at_ms;
        }
        decision
    }

    fn forecast(&self, words: &[u64], now: Now) -> Forecast {
        let standing = self.standing(words, now);
        let more = Cost::new(standing.remaining.saturating_add(1))
            .map(|cost| self.run(words, now, cost).decision);
        let next_unit_at_ms = more
            .ok()
            .and_then(|decision| decision.retry_after_ms)
            .map(|wait| to_ms_up(now.reading()).saturating_add(wait));
        let full = standing.remaining >= standing.limit;
        let next_unit_at_ms = next_unit_at_ms.filter(|_| !full);
        Forecast::new(standing.limit, standing.remaining, next_unit_at_ms, standing.reset_at_ms)
    }

    /// A user's step only takes: nothing is given back.
    fn refund(&self, _words: &[u64], _now: Now, _cost: Cost, _receipt: Receipt) -> Refund {
        Refund::NOTHING
    }

    fn debt(&self, words: &[u64], now: Now) -> Debt {
        let standing = self.standing(words, now);
        let units = standing.limit.saturating_sub(standing.remaining);
        Debt { units, seen: now.effective() }
    }

    fn indebted(&self, debt: Debt) -> Write {
        match self.0.carry_over(debt.units, debt.seen) {
            Some(next) => self.write(&next),
            None => Write { words: Words::new(&[]), fresh_at: debt.seen },
        }
    }

    fn recall(&self, quota_id: QuotaId) -> Option<Rule> {
        let QuotaId([tag, a, b, c]) = quota_id;
        if tag == name_tag(C::NAME) {
            return C::from_parameters([a, b, c]).map(|custom| Rule::new(Self(custom)));
        }
        built_in(quota_id)
    }

    fn scripted_step(&self) -> Option<ScriptedStep> {
        let is_exact = self.0.parameters().iter().all(|number| *number < EXACT_MAX);
        self.0.script().filter(|_| is_exact).map(ScriptedStep::Custom)
    }

    fn script_quota(&self, out: &mut Vec<u64>) {
        out.extend(self.0.parameters());
    }

    fn scaled(&self, _numerator: u64, _denominator: u64) -> Result<Rule> {
        let message = format!("the algorithm {} cannot be scaled to a share", C::NAME);
        Err(Error::new(Code::Unsupported, message))
    }
}

/// A tag between 2^52 and 2^53 from a name (FNV-1a): apart from the built-in ones, exact in
/// scripts.
fn name_tag(name: &str) -> u64 {
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    (1 << 52) | (hash >> 12)
}
