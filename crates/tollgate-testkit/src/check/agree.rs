//! Runs an algorithm beside the reference model and compares them field by field.

use core::fmt::{self, Debug};

use tollgate_core::algorithm::{Algorithm, Carried, Write, migrate_state, next_state};
use tollgate_core::store::{Plan, SlotWrite, plan};
use tollgate_core::{Cost, Limit, Now, Operation, Rule, State, Verdict};

use super::promise;
use crate::model::{Kind, Model, ModelQuota};
use crate::trace::{Event, Mix, Settling, Trace};

/// What a run covered: a run that never denied has proved little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events in all.
    pub steps: u64,
    /// Keys.
    pub keys: u64,
    /// Charges allowed.
    pub allowed: u64,
    /// Charges denied.
    pub denied: u64,
    /// Charges that could never be granted.
    pub never: u64,
    /// Settlements that gave something back.
    pub given_back: u64,
    /// Settlements that left the key in debt.
    pub indebted: u64,
    /// Settlements of which a part was dropped.
    pub dropped: u64,
    /// States carried over to a quota that the key did not have.
    pub carried: u64,
    /// Changes back to a quota that the key had.
    pub returned: u64,
    /// Decisions that were also made in the one-word form.
    pub packed_schedule: u64,
    /// Denials whose `retry_after` was found to be tight.
    pub tight: u64,
}

/// Compares an algorithm with the model over a seeded trace, decision by decision.
///
/// # Panics
/// When the property does not hold, naming the seed.
#[must_use = "the tally says what the run covered"]
pub fn agrees_with_model(kind: Kind, seed: u64, steps: u64) -> Tally {
    soak(kind, seed, steps, |_| {})
}

/// [`agrees_with_model`] for long runs: `progress` is told the steps done, every million of them.
///
/// # Panics
/// When the property does not hold, naming the seed.
pub fn soak(kind: Kind, seed: u64, steps: u64, mut progress: impl FnMut(u64)) -> Tally {
    let mut trace = Trace::new(kind, seed, Mix::ALGORITHM);
    let Event::Fresh(quota) = trace.next_event() else {
        return Tally::default();
    };
    let mut pair = Pair::new(quota, seed);
    while pair.tally.steps < steps {
        let event = trace.next_event();
        if let Some((now, cost, decision)) = pair.apply(event) {
            trace.observe(now, cost, &decision);
        }
        if pair.tally.steps.is_multiple_of(1_000_000) {
            progress(pair.tally.steps);
        }
    }
    pair.tally
}

/// The same key twice: as the algorithm keeps it, and as mathematics.
struct Pair {
    seed: u64,
    quota: ModelQuota,
    rule: Rule,
    state: Option<State>,
    model: Model,
    tally: Tally,
}

type Decided = (Now, Cost, tollgate_core::Decision);

impl Pair {
    fn new(quota: ModelQuota, seed: u64) -> Self {
        Self {
            seed,
            quota,
            rule: rule_of(&quota),
            state: None,
            model: Model::new(quota),
            tally: Tally { keys: 1, ..Tally::default() },
        }
    }

    fn apply(&mut self, event: Event) -> Option<Decided> {
        self.tally.steps += 1;
        match event {
            Event::Fresh(quota) => {
                let tally = Tally { keys: self.tally.keys + 1, ..self.tally };
                *self = Self { tally, ..Self::new(quota, self.seed) };
            }
            Event::Change(quota) => {
                self.quota = quota;
                self.rule = rule_of(&quota);
                self.model.change(quota);
            }
            Event::Check(now, cost) => return Some(self.check(now, cost)),
            Event::Peek(now, cost) => {
                let words = self.words_met(now);
                let decided = self.rule.peek(&words, now, cost);
                self.same("peek", &event, &decided, &self.model.peek(now, cost));
                self.spends_what_remains(&words, now, &event);
            }
            Event::Forecast(now) => {
                let words = self.words_met(now);
                let forecast = self.rule.forecast(&words, now);
                self.same("forecast", &event, &forecast, &self.model.forecast(now));
            }
            Event::Settle(now, settling) => self.settle(now, settling),
        }
        None
    }

    /// What remains can be spent at once, and not one unit more: a range is granted that.
    fn spends_what_remains(&self, words: &[u64], now: Now, event: &Event) {
        let left = self.rule.peek(words, now, Cost::ONE).remaining;
        for (units, expected) in [(left, true), (left + 1, false)] {
            if let Ok(cost) = Cost::new(units) {
                let is_allowed = self.rule.peek(words, now, cost).is_allowed();
                self.same("what remains is spendable", event, &is_allowed, &expected);
            }
        }
    }

    fn check(&mut self, now: Now, cost: Cost) -> Decided {
        self.meet(now);
        let event = Event::Check(now, cost);
        let words = self.words();
        let uncharged = self.rule.peek(&words, now, cost);
        self.same("peek", &event, &uncharged, &self.model.peek(now, cost));
        let step = self.rule.step(&words, now, cost);
        let expected = self.model.check(now, cost);
        self.same("step", &event, &step.decision, &expected);
        let written = step.write.is_some();
        self.same("writes iff allowed", &event, &written, &expected.is_allowed());
        self.compare_one_word(&event, &words, &step.write);
        if self.tally.steps.is_multiple_of(4) {
            self.tally.tight += u64::from(step.decision.verdict == Verdict::Denied);
            promise::is_kept(&self.rule, &words, (now, cost), &step, &self.context(&event));
        }
        match step.decision.verdict {
            Verdict::Allowed => self.tally.allowed += 1,
            Verdict::Denied => self.tally.denied += 1,
            Verdict::Never => self.tally.never += 1,
        }
        if let Some(write) = step.write {
            self.keep(write, Some(cost), now);
        }
        (now, cost, expected)
    }

    /// Settles as stores do, by a plan.
    #[expect(clippy::panic, reason = "a state that is refused is a failure of the property")]
    fn settle(&mut self, now: Now, settling: Settling) {
        let Settling { cost, receipt, to, max_debt } = settling;
        let (event, before) = (Event::Settle(now, settling), self.words_met(now));
        let limit = limit_of(&self.rule).max_debt(max_debt);
        let mut charge = limit.charge("key").cost(cost);
        charge.operation = Operation::Settle { receipt, to };
        let Plan { decisions, settled, writes, .. } =
            match plan(&[charge], &[0], core::slice::from_ref(&self.state), now) {
                Ok(planned) => planned,
                Err(error) => panic!("{error}: {}", self.context(&event)),
            };
        let expected = self.model.settle(now, cost, (receipt, to), max_debt);
        self.same("settlement", &event, &*settled, &[expected]);
        self.same("standing", &event, &*decisions, &[self.model.standing(now)]);
        self.tally.given_back += u64::from(expected.given_back > 0);
        self.tally.dropped += u64::from(expected.dropped > 0);
        if let Some(SlotWrite { state, fresh_at, .. }) = writes.into_iter().next() {
            if state.others.is_empty() {
                let write = Write { words: state.words.clone(), fresh_at };
                promise::is_fresh_at(&self.rule, &write, &self.context(&event));
            }
            self.state = Some(state);
        }
        let words = self.words();
        self.accepts(&words);
        let changes = expected.given_back + expected.charged > 0;
        self.same("writes iff changed", &event, &(words != before), &changes);
        let owed = self.rule.debt(&words, now).units;
        self.tally.indebted += u64::from(expected.charged > 0 && owed > self.rule.ceiling());
        let after = self.rule.forecast(&words, now);
        self.same("forecast after settling", &event, &after, &self.model.forecast(now));
    }

    /// The one-word form must decide as the full one does.
    fn compare_one_word(&mut self, event: &Event, words: &[u64], write: &Option<Write>) {
        let Event::Check(now, cost) = *event else {
            return;
        };
        let algorithm: &dyn Algorithm = &*self.rule;
        let Some(packed_schedule) = algorithm.packed_schedule() else {
            return;
        };
        let word = packed_schedule.pack(words);
        let next = packed_schedule.advance(word, now, cost);
        let decision = match next {
            Some(next) => packed_schedule.granted(word, next, now),
            None => packed_schedule.refused(word, now, cost),
        };
        let full = algorithm.step(words, now, cost).decision;
        self.same("one word", event, &decision, &full);
        let packed = write.as_ref().map(|write| packed_schedule.pack(&write.words));
        self.same("next word", event, &next, &packed);
        let fresh_at = next.map(|next| packed_schedule.fresh_at(next));
        self.same("fresh at", event, &fresh_at, &write.as_ref().map(|write| write.fresh_at));
        if !words.is_empty() {
            self.same("unpacked", event, &*packed_schedule.unpack(word), words);
        }
        self.tally.packed_schedule += 1;
    }

    #[expect(clippy::panic, reason = "a state that is refused is a failure of the property")]
    /// What a state of another quota becomes under this one; `None` if it is of this quota.
    fn carried(&self, now: Now) -> Option<Carried> {
        let state = self.state.as_ref()?;
        match migrate_state(&self.rule, state, now) {
            Ok(carried) => carried,
            Err(error) => panic!("{error}: {state:?} under {:?}, seed {}", self.quota, self.seed),
        }
    }

    /// The first contact after a change keeps what it carries over.
    fn meet(&mut self, now: Now) {
        if let Some(Carried { state, is_first, .. }) = self.carried(now) {
            self.tally.carried += u64::from(is_first);
            self.tally.returned += u64::from(!is_first);
            self.accepts(&state.words);
            self.state = Some(state);
        }
    }

    #[expect(clippy::panic, reason = "a state that is refused is a failure of the property")]
    fn keep(&mut self, write: Write, charged: Option<Cost>, now: Now) {
        self.accepts(&write.words);
        if self.tally.steps.is_multiple_of(4) {
            promise::is_fresh_at(&self.rule, &write, &self.context(&"keep"));
        }
        let others = self.state.as_ref().map_or(&[][..], |state| &state.others);
        match next_state(&self.rule, write, (others, charged), now) {
            Ok((state, _)) => self.state = Some(state),
            Err(error) => panic!("{error}: {}", self.context(&"keep")),
        }
    }

    fn accepts(&self, words: &[u64]) {
        let is_own = self.rule.accepts(words);
        assert!(is_own, "refuses its own state {words:?}; {}", self.context(&"keep"));
    }

    /// The words as the quota in force reads them.
    fn words_met(&self, now: Now) -> Vec<u64> {
        self.carried(now).map_or_else(|| self.words(), |carried| carried.state.words.to_vec())
    }

    fn words(&self) -> Vec<u64> {
        self.state.as_ref().map_or_else(Vec::new, |state| state.words.to_vec())
    }

    fn same<T: PartialEq + Debug + ?Sized>(&self, what: &str, event: &Event, core: &T, model: &T) {
        assert!(
            core == model,
            "{what} differs\n  core:  {core:?}\n  model: {model:?}\n  {}",
            self.context(event)
        );
    }

    fn context<'a>(&'a self, event: &'a dyn Debug) -> Context<'a> {
        Context { pair: self, event }
    }
}

/// Where a run was when something went wrong; formatted only then.
struct Context<'a> {
    pair: &'a Pair,
    event: &'a dyn Debug,
}

impl fmt::Display for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pair { state, quota, tally, seed, .. } = self.pair;
        let (event, steps) = (self.event, tally.steps);
        write!(f, "at {event:?}, state {state:?}, quota {quota:?}, step {steps}, seed {seed:#x}")
    }
}

#[expect(clippy::panic, reason = "the name is accepted")]
fn limit_of(rule: &Rule) -> Limit {
    Limit::with_rule("settled", rule.clone()).unwrap_or_else(|error| panic!("{error}"))
}

#[expect(clippy::panic, reason = "traces only contain quotas that are accepted")]
fn rule_of(quota: &ModelQuota) -> Rule {
    quota.rule().unwrap_or_else(|error| panic!("{quota:?} is refused: {error}"))
}
