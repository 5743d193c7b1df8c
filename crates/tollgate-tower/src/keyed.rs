//! One limit of a layer: what is limited, who is charged, how much, and what is settled later.

use core::fmt;
use core::time::Duration;

use http::{Extensions, HeaderMap, StatusCode};
use tollgate::{Cost, Decision, Limit};

use crate::extract::{Extract, Trouble, Unkeyed};
use crate::head::Head;
use crate::subject::Subject;

type CostOf = dyn Fn(&Head<'_>) -> Cost + Send + Sync;
type UnitsOf = dyn Fn(&Outcome<'_>) -> u64 + Send + Sync;

/// What came of a request that was admitted.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outcome<'a> {
    /// What was charged when the request was admitted.
    pub cost: Cost,
    /// The status of the response.
    pub status: StatusCode,
    /// The headers of the response. A gRPC status is here only if the call failed at once.
    pub headers: &'a HeaderMap,
    /// What the service left in the response: a count of rows, a price.
    pub extensions: &'a Extensions,
}

/// A limit, who is charged under it, and how much.
pub struct Keyed {
    pub(crate) limit: Limit,
    extract: Box<dyn Extract>,
    cost: Option<Box<CostOf>>,
    settle: Option<Box<UnitsOf>>,
    slow_down: Option<SlowDown>,
    is_optional: bool,
}

impl Keyed {
    /// One unit per request under this limit, charged to whom the extractor finds.
    pub fn new(limit: Limit, extract: impl Extract + 'static) -> Self {
        let extract = Box::new(extract);
        Self { limit, extract, cost: None, settle: None, slow_down: None, is_optional: false }
    }

    /// How many units a request asks for.
    #[must_use]
    pub fn cost(mut self, cost: impl Fn(&Head<'_>) -> Cost + Send + Sync + 'static) -> Self {
        self.cost = Some(Box::new(cost));
        self
    }

    /// How many units a request has used, once its response is known. What was charged and not used
    /// is given back, as far as it is still counted; what was used beyond it is charged, as far as
    /// there are units left. A request that fails without a response keeps its charge.
    #[must_use]
    pub fn settle(mut self, used: impl Fn(&Outcome<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.settle = Some(Box::new(used));
        self
    }

    /// Counts only requests that failed: the charge of any other is given back. For logins: the
    /// failed ones are limited, however many are tried at once.
    #[must_use]
    pub fn count_only(self, failed: impl Fn(&Outcome<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.settle(move |outcome| if failed(outcome) { outcome.cost.get() } else { 0 })
    }

    /// Delays requests, the more the fuller their key is.
    #[must_use]
    pub fn slow_down(mut self, slow_down: SlowDown) -> Self {
        self.slow_down = Some(slow_down);
        self
    }

    /// Leaves this limit out for requests whose subject is missing. Without it they are refused.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Changes the limit.
    pub(crate) fn map_limit(mut self, change: impl FnOnce(Limit) -> Limit) -> Self {
        self.limit = change(self.limit);
        self
    }

    /// What a request asks of this limit; `None` when the limit is left out.
    pub(crate) fn ask(&self, index: usize, head: &Head<'_>) -> Result<Option<Asked>, Unkeyed> {
        let mut subject = Subject::default();
        let asks = self.subject(head, &mut subject)?;
        Ok(asks.then(|| Asked { index, subject, cost: self.cost_of(head) }))
    }

    /// Writes who is charged. False when the limit is left out.
    pub(crate) fn subject(&self, head: &Head<'_>, subject: &mut Subject) -> Result<bool, Unkeyed> {
        match self.extract.extract(head, subject) {
            Ok(()) => Ok(true),
            Err(error) if self.is_optional && error.trouble == Trouble::Missing => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn cost_of(&self, head: &Head<'_>) -> Cost {
        self.cost.as_ref().map_or(Cost::ONE, |cost| cost(head))
    }

    pub(crate) fn settles(&self) -> bool {
        self.settle.is_some()
    }

    /// Units used, if that is settled afterwards.
    pub(crate) fn used(&self, outcome: &Outcome<'_>) -> Option<u64> {
        self.settle.as_ref().map(|settle| settle(outcome))
    }

    /// How long an admitted request is to be held back.
    pub(crate) fn delay_ms(&self, decision: &Decision) -> u64 {
        self.slow_down.map_or(0, |slow| slow.delay_ms(decision))
    }
}

impl fmt::Debug for Keyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut keyed = f.debug_struct("Keyed");
        keyed.field("limit", &self.limit).field("extract", &self.extract).finish_non_exhaustive()
    }
}

/// What one request asks of one limit.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Which limit of the layer.
    pub(crate) index: usize,
    pub(crate) subject: Subject,
    pub(crate) cost: Cost,
}

/// A delay that grows with every unit: nothing for the first ones, then one step more for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowDown {
    after: u64,
    step_ms: u64,
    max_ms: u64,
}

impl SlowDown {
    /// No delay for the first `after` units that a key has spent, then `step` more for each.
    #[must_use]
    pub fn after(after: u64, step: Duration) -> Self {
        Self { after, step_ms: whole_ms(step), max_ms: u64::MAX }
    }

    /// No delay is longer than this, nor than the longest that the layer waits.
    #[must_use]
    pub fn at_most(mut self, max: Duration) -> Self {
        self.max_ms = whole_ms(max);
        self
    }

    fn delay_ms(self, decision: &Decision) -> u64 {
        if decision.degraded.is_some() {
            return 0;
        }
        let spent = decision.limit.saturating_sub(decision.remaining);
        spent.saturating_sub(self.after).saturating_mul(self.step_ms).min(self.max_ms)
    }
}

/// Whole milliseconds, rounded up.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}
