//! The answer: may this request pass now, and the numbers of the key after it.

use core::fmt;
use core::time::Duration;

use crate::charge::Receipt;
use crate::cost::Cost;
use crate::key::Name;
use crate::time::{MICROS_PER_MS, Micros};

/// What was decided.
///
/// Exhaustive on purpose: the three verdicts are part of every protocol and of the golden vectors,
/// and a caller that must handle a fourth one has to learn of it at compile time. What else there
/// is to say about a decision becomes a field of [`Decision`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The request may pass, and was charged.
    Allowed,
    /// The request must wait; nothing was charged.
    Denied,
    /// The cost exceeds what this quota could ever grant: waiting is useless.
    Never,
}

impl Verdict {
    /// The stable text of the verdict.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a decision was made without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutageMode {
    /// Admitted because the store could not answer.
    Open,
    /// Refused because the store could not answer.
    Closed,
    /// Decided by this process alone, with its share of the quota.
    Local,
}

impl OutageMode {
    /// The stable text of the mode.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Local => "local",
        }
    }
}

/// The answer to one request. All numbers are whole.
///
/// If nothing else is spent, the same request is allowed after waiting `retry_after_ms`, and not
/// one whole millisecond earlier.
///
/// On several limits at once: allowed if all are, never if any is. The numbers are those of the
/// [binding](Decision::binding) limit and of no other, but for `delay_ms`, which is the longest.
/// [`Decision::parts`] has the numbers of each limit.
///
/// ```
/// use tollgate_core::{Limit, Limiter, ManualClock, Quota, Verdict};
/// use tollgate_core::store::Memory;
///
/// let limiter = Limiter::with_clock(Memory::new(), ManualClock::at(0)).build();
/// let logins = Limit::gcra("logins", Quota::per_minute(2))?;
/// let decisions = [(); 3].map(|()| limiter.sync().check(logins.charge("ada")));
/// let [first, _, third] = decisions;
/// let (first, third) = (first?, third?);
/// assert_eq!((first.verdict, first.limit, first.remaining), (Verdict::Allowed, 2, 1));
/// assert_eq!((third.verdict, third.remaining), (Verdict::Denied, 0));
/// assert_eq!(third.retry_after_ms, Some(30_000));
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Decision {
    /// Allowed, denied, or never.
    pub verdict: Verdict,
    /// How the decision was made without the store, if it was.
    pub degraded: Option<OutageMode>,
    /// The effective ceiling: burst, capacity or window quota.
    pub limit: u64,
    /// Whole units spendable now, after this decision (uncharged unless allowed).
    pub remaining: u64,
    /// When the key means the same as a fresh one if nothing more is spent; epoch milliseconds,
    /// rounded up.
    pub reset_at_ms: u64,
    /// Milliseconds to wait, rounded up: 0 when allowed, at least 1 when denied, absent for never.
    pub retry_after_ms: Option<u64>,
    /// Milliseconds to wait before proceeding; 0 except for a shaper.
    pub delay_ms: u64,
    /// Whether this repeats the decision that was made earlier under the same request id. Nothing
    /// was charged again.
    pub replayed: bool,
    /// Boxed, since most decisions are on one limit and an exact cost: one word in each decision.
    extra: Option<Box<Extra>>,
    /// Whether units were taken: not by a peek, nor by a part of a denied combination.
    pub(crate) charged: bool,
    /// See [`Decision::decided_at_s`]. Four bytes, which fit into what alignment leaves.
    decided_at_s: u32,
}

/// What a decision on several limits, or on a range, has beyond its numbers.
#[derive(Clone, Debug, Default, PartialEq)]
struct Extra {
    granted: Option<Cost>,
    /// Absent for one limit.
    binding: Option<Name>,
    /// The decision of each charge; empty for one limit, and for a decision without the store.
    parts: Vec<Decision>,
}

/// Decisions are equal if they say the same, whether or not they charged anything, and whether or
/// not one repeats the other.
impl PartialEq for Decision {
    fn eq(&self, other: &Self) -> bool {
        let numbers = |one: &Self| [one.limit, one.remaining, one.reset_at_ms, one.delay_ms];
        (self.verdict, self.degraded, self.retry_after_ms)
            == (other.verdict, other.degraded, other.retry_after_ms)
            && numbers(self) == numbers(other)
            && self.extra == other.extra
    }
}

impl Eq for Decision {}

impl Decision {
    /// An allowance.
    #[must_use]
    #[inline]
    pub const fn allowed(limit: u64, remaining: u64, reset_at_ms: u64) -> Self {
        Self::with(Verdict::Allowed, Some(0), [limit, remaining, reset_at_ms])
    }

    /// A denial: try again after `retry_after_ms`, which is at least 1.
    #[must_use]
    #[inline]
    pub const fn denied(limit: u64, remaining: u64, reset_at_ms: u64, retry_after_ms: u64) -> Self {
        let retry_after_ms = if retry_after_ms == 0 { 1 } else { retry_after_ms };
        Self::with(Verdict::Denied, Some(retry_after_ms), [limit, remaining, reset_at_ms])
    }

    /// A refusal that waiting cannot cure.
    #[must_use]
    #[inline]
    pub const fn never(limit: u64, remaining: u64, reset_at_ms: u64) -> Self {
        Self::with(Verdict::Never, None, [limit, remaining, reset_at_ms])
    }

    #[inline]
    const fn with(verdict: Verdict, retry_after_ms: Option<u64>, numbers: [u64; 3]) -> Self {
        let [limit, remaining, reset_at_ms] = numbers;
        Self {
            verdict,
            degraded: None,
            limit,
            remaining,
            reset_at_ms,
            retry_after_ms,
            delay_ms: 0,
            replayed: false,
            extra: None,
            charged: matches!(verdict, Verdict::Allowed),
            decided_at_s: 0,
        }
    }

    /// The same decision, made at this reading of the clock that decided.
    pub(crate) fn decided_at(mut self, reading: Micros) -> Self {
        self.decided_at_s = u32::try_from(reading / 1_000_000).unwrap_or(u32::MAX);
        self
    }

    /// When it was decided by the clock that decided, in whole seconds since the epoch. The same
    /// at every replay under a request id; absent for a check in this process without one.
    #[must_use]
    pub const fn decided_at_s(&self) -> Option<u64> {
        match self.decided_at_s {
            0 => None,
            seconds => Some(seconds as u64),
        }
    }

    /// The same decision of a peek.
    pub(crate) fn uncharged(mut self) -> Self {
        self.charged = false;
        if let Some(extra) = &mut self.extra {
            extra.parts.iter_mut().for_each(|part| part.charged = false);
        }
        self
    }

    /// The same decision, repeated under its request id.
    pub(crate) fn replayed(mut self) -> Self {
        self.replayed = true;
        if let Some(extra) = &mut self.extra {
            extra.parts.iter_mut().for_each(|part| part.replayed = true);
        }
        self
    }

    /// The decision on several charges, of which these are the decisions of each.
    pub(crate) fn of_parts(mut self, binding: Name, parts: Vec<Self>) -> Self {
        let extra = self.extra.get_or_insert_default();
        extra.binding = Some(binding);
        extra.parts = parts;
        self
    }

    /// The same decision, which grants this many units of a range.
    #[must_use]
    pub fn granting(mut self, units: impl Into<Option<Cost>>) -> Self {
        if let Some(units) = units.into() {
            self.extra.get_or_insert_default().granted = Some(units);
        }
        self
    }

    /// Units granted to a [range](crate::Charge::up_to), or that would be, if this is a peek;
    /// absent unless a range is allowed. Of several ranges the least: [parts](Self::parts) has
    /// each.
    #[must_use]
    pub fn granted(&self) -> Option<Cost> {
        self.extra.as_ref()?.granted
    }

    /// The name of the limit whose numbers these are, when several were asked: the one with the
    /// longest wait, or when all allow the one with the fewest units left, then the latest reset.
    #[must_use]
    pub fn binding(&self) -> Option<&Name> {
        self.extra.as_ref()?.binding.as_ref()
    }

    /// The same decision under another name of the limit that decided.
    #[must_use]
    pub fn with_binding(mut self, binding: Name) -> Self {
        self.extra.get_or_insert_default().binding = Some(binding);
        self
    }

    /// The decision of each charge, in their order; this decision itself if there was one charge.
    /// Empty for a decision without the store.
    ///
    /// If the combination was allowed, each part has the receipt of its charge; else nothing was
    /// charged, and none has.
    #[must_use]
    pub fn parts(&self) -> &[Self] {
        match &self.extra {
            _ if self.degraded.is_some() => &[],
            Some(extra) if !extra.parts.is_empty() => &extra.parts,
            _ => core::slice::from_ref(self),
        }
    }

    /// The same decision with a delay before proceeding.
    #[must_use]
    #[inline]
    pub const fn after(mut self, delay_ms: u64) -> Self {
        self.delay_ms = delay_ms;
        self
    }

    /// The same decision, made without the store.
    #[must_use]
    pub fn degraded(mut self, mode: OutageMode) -> Self {
        self.degraded = Some(mode);
        if let Some(extra) = &mut self.extra {
            extra.parts.clear();
        }
        self
    }

    /// What to give to a refund of this charge. Absent unless the store charged this one limit: not
    /// for a denial, a peek, a part of a denied combination, or a decision without the store; nor
    /// for a combination, whose numbers are of several charges: its [parts](Self::parts) have
    /// receipts.
    ///
    /// A receipt names a charge, it is not used up: refund a charge once, or under a request id.
    #[must_use]
    pub fn receipt(&self) -> Option<Receipt> {
        if self.charged && self.degraded.is_none() && self.binding().is_none() {
            Some(Receipt::Until(self.reset_at_ms.saturating_mul(MICROS_PER_MS)))
        } else {
            None
        }
    }

    /// How long to wait before asking again; absent when allowed, and when waiting is useless.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.retry_after_ms {
            None | Some(0) => None,
            Some(wait) => Some(Duration::from_millis(wait)),
        }
    }

    /// Whether the request may pass.
    #[must_use]
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed)
    }
}

// One cache line: what is added must fit into what is there.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Decision>() == 64);

/// What a key could spend if nothing else is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forecast {
    /// The effective ceiling.
    pub limit: u64,
    /// Whole units spendable now.
    pub spendable_now: u64,
    /// When one more unit becomes spendable; absent when the key is full. Epoch ms, rounded up.
    pub next_unit_at_ms: Option<u64>,
    /// When every unit is spendable; now when the key is full. Epoch ms, rounded up.
    pub full_at_ms: u64,
}

impl Forecast {
    /// A forecast for a key with `spendable_now` of `limit` units.
    #[must_use]
    pub const fn new(
        limit: u64,
        spendable_now: u64,
        next_unit_at_ms: Option<u64>,
        full_at_ms: u64,
    ) -> Self {
        Self { limit, spendable_now, next_unit_at_ms, full_at_ms }
    }
}
