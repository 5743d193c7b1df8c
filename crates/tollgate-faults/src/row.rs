//! A row of the table of guarantees: what callers of one mode got while a fault lasted.

use core::fmt;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::OutageMode;

use crate::audit::Units;
use crate::backend::Store;
use crate::fault::Fault;
use crate::fleet::SERVERS;
use crate::sample::Summary;
use crate::traffic::Call;

/// The head of the table.
pub(crate) const HEAD: &str = "\
| store | fault | mode | requests | over-admitted | forgotten | doubled | charged, not answered | \
degraded | refused | longest answer | timer delay | detected after | recovered after |
|---|---|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|
";
/// An answer without the store that took less did not wait for it.
const AT_ONCE: Duration = Duration::from_millis(20);
/// The deadline of the servers, and what an answer may take beyond it.
const DEADLINE: Duration = Duration::from_millis(100);
/// The share of the longest answer that is not the deadline.
const SLACK: Duration = Duration::from_millis(50);

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The store.
    pub store: Store,
    /// What failed.
    pub fault: Fault,
    /// The mode of the policies.
    pub mode: OutageMode,
    /// The answers.
    pub answers: Summary,
    /// The units.
    pub units: Units,
    /// How late a timer of the load fired at most: what the machine added to answers.
    pub timer_delay: Duration,
    /// When the answers that came too late were asked for, counted from the beginning of the fault:
    /// the first and the last of them, and how many there are.
    pub late: Option<Late>,
    /// How long after the beginning every server answered at once without the store.
    pub detected: Option<Duration>,
    /// The answers from then on to the end of the fault.
    pub after_detection: Summary,
    /// How long after the end the last call was answered without the store.
    pub recovered: Duration,
}

impl Row {
    /// The row of a mode, from all calls and the times of the fault.
    pub(crate) fn new(
        (store, fault, mode): (Store, Fault, OutageMode),
        (units, timer_delay): (Units, Duration),
        calls: &[Call],
        (begun, ended): (Instant, Instant),
    ) -> Self {
        let calls = || calls.iter().filter(|call| call.mode == mode);
        let without = || calls().filter(|call| !call.sample.answer.is_by_store());
        let detected = (0..SERVERS).map(|server| {
            let fast = without().filter(|call| {
                let Call { server: of, sample, .. } = call;
                let is_fast = sample.begun >= begun && sample.took < AT_ONCE;
                *of == server && is_fast && sample.answer.is_of_outage()
            });
            let fast = fast.filter(|call| call.sample.ended() <= ended);
            fast.map(|call| call.sample.ended() - begun).min()
        });
        let detected: Option<Vec<Duration>> = detected.collect();
        let detected = detected.and_then(|each| each.into_iter().max());
        let after = detected.map(|detected| begun + detected);
        let after = calls().filter(|call| {
            let begun = call.sample.begun;
            after.is_some_and(|after| after <= begun && begun <= ended)
        });
        let last = without().map(|call| call.sample.ended()).max();
        Self {
            store,
            fault,
            mode,
            answers: Summary::of(calls().map(|call| &call.sample)),
            units,
            timer_delay,
            late: Late::of(calls(), begun),
            detected,
            after_detection: Summary::of(after.map(|call| &call.sample)),
            recovered: last.map_or(Duration::ZERO, |last| last.saturating_duration_since(ended)),
        }
    }

    /// What the row shows that must never be, in words.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let Units { over_admitted, forgotten, doubled, behind_refusals, .. } = self.units;
        let mut found = Vec::new();
        let mut demand = |is_right: bool, what: String| {
            if !is_right {
                found.push(format!("{}: {what}", self.name()));
            }
        };
        demand(doubled == 0, format!("{doubled} units were charged twice under one request id"));
        demand(behind_refusals == 0, format!("{behind_refusals} refused calls were charged"));
        if !self.fault.forgets(self.store) {
            demand(over_admitted == 0, format!("{over_admitted} units beyond the limit"));
            demand(forgotten == 0, format!("{forgotten} units were forgotten"));
        }
        found
    }

    /// Whether every answer came in time: at most 50 ms after the deadline.
    #[must_use]
    pub const fn is_in_time(&self) -> bool {
        self.late.is_none()
    }

    /// Store, fault and mode.
    #[must_use]
    pub fn name(&self) -> String {
        name(self.store, self.fault, self.mode)
    }

    /// The line of the table.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let Units { over_admitted, forgotten, doubled, unanswered, .. } = self.units;
        let detected = self.detected.map_or_else(|| "–".to_owned(), whole_ms);
        format!(
            "| {} | {} | {over_admitted} | {forgotten} | {doubled} | {unanswered} | {} | {} | {} \
             | {} | {detected} | {} |\n",
            self.name(),
            self.answers.calls,
            self.answers.degraded,
            self.answers.refusals(),
            whole_ms(self.answers.longest),
            whole_ms(self.timer_delay),
            whole_ms(self.recovered),
        )
    }
}

/// Answers that came too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    count: usize,
    /// In milliseconds from the beginning of the fault.
    first_ms: i128,
    last_ms: i128,
}

impl Late {
    fn of<'c>(calls: impl Iterator<Item = &'c Call>, from: Instant) -> Option<Self> {
        let late = calls.filter(|call| call.sample.took > DEADLINE + SLACK);
        let since = |at: Instant| match at.checked_duration_since(from) {
            Some(after) => after.as_millis().cast_signed(),
            None => -(from - at).as_millis().cast_signed(),
        };
        let times: Vec<i128> = late.map(|call| since(call.sample.begun)).collect();
        let (first_ms, last_ms) = times.iter().min().copied().zip(times.iter().max().copied())?;
        Some(Self { count: times.len(), first_ms, last_ms })
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, first_ms, last_ms } = self;
        write!(f, "{count} late, asked for {first_ms} to {last_ms} ms after the fault began")
    }
}

/// The cells that name a row.
pub(crate) fn name(store: Store, fault: Fault, mode: OutageMode) -> String {
    format!("{} | {} | {}", store.name(), fault.name(), mode.as_str())
}

fn whole_ms(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}
