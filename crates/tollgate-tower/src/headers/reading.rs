//! The numbers of one limit as headers state them: whole seconds, bounded integers.

use tollgate::{Decision, Limit};

/// The largest integer of a structured field (RFC 9651).
pub(super) const INTEGER_MAX: u64 = 999_999_999_999_999;
const MICROS_PER_S: u64 = 1_000_000;
const MS_PER_S: u64 = 1_000;

/// As much of an allowed decision as headers state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brief {
    limit: u64,
    remaining: u64,
    reset_at_ms: u64,
}

impl Brief {
    pub(crate) const fn of(decision: &Decision) -> Self {
        let Decision { limit, remaining, reset_at_ms, .. } = *decision;
        Self { limit, remaining, reset_at_ms }
    }
}

/// How one limit stands after a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(super) policy: &'a str,
    pub(super) limit: u64,
    pub(super) remaining: u64,
    /// Seconds, rounded up: until the request may be sent again if it was denied, else until the
    /// key is fresh again.
    pub(super) wait_s: u64,
    /// When that is, in seconds since the epoch.
    pub(super) wait_until_s: u64,
    pub(super) window_s: Option<u64>,
}

impl<'a> Reading<'a> {
    /// `part` is the decision of this limit, `whole` the one on all limits that were asked.
    pub(crate) fn new(limit: &'a Limit, part: &Decision, whole: &Decision, now_ms: u64) -> Self {
        let until_fresh = part.reset_at_ms.saturating_sub(now_ms);
        let own = part.retry_after_ms.filter(|_| !part.is_allowed());
        // The client will be back after the wait of the whole: no window may end later.
        let next = whole.retry_after_ms.filter(|_| !whole.is_allowed());
        let wait_ms = own.unwrap_or(until_fresh).min(next.unwrap_or(u64::MAX));
        Self::stated(limit, (part.limit, part.remaining), wait_ms, now_ms)
    }

    /// The same for the only limit, which allows the request.
    pub(crate) fn of_allowed(limit: &'a Limit, brief: &Brief, now_ms: u64) -> Self {
        let until_fresh = brief.reset_at_ms.saturating_sub(now_ms);
        Self::stated(limit, (brief.limit, brief.remaining), until_fresh, now_ms)
    }

    fn stated(
        limit: &'a Limit,
        (ceiling, remaining): (u64, u64),
        wait_ms: u64,
        now_ms: u64,
    ) -> Self {
        Self {
            policy: limit.policy().as_str(),
            limit: ceiling.min(INTEGER_MAX),
            remaining: remaining.min(INTEGER_MAX),
            wait_s: wait_ms.div_ceil(MS_PER_S).min(INTEGER_MAX),
            wait_until_s: now_ms.saturating_add(wait_ms).div_ceil(MS_PER_S).min(INTEGER_MAX),
            window_s: window_s(limit),
        }
    }
}

/// The window of a limit, where it is a whole number of seconds: the fields know no fractions, and
/// a rounded one would state another rate.
pub(super) fn window_s(limit: &Limit) -> Option<u64> {
    let window = limit.rule().window();
    (window > 0 && window.is_multiple_of(MICROS_PER_S)).then_some(window / MICROS_PER_S)
}
