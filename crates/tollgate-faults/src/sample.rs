//! What became of calls, and many of them in numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::OutageMode;

/// What became of one call.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Which subject was charged, by its place in the list.
    pub subject: usize,
    /// When the call began.
    pub begun: Instant,
    /// How long it took.
    pub took: Duration,
    /// Its answer.
    pub answer: Answer,
}

impl Sample {
    /// When the answer arrived.
    #[must_use]
    pub fn ended(&self) -> Instant {
        self.begun + self.took
    }
}

/// The answer of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The store decided.
    Store {
        /// Whether it admitted the call.
        allowed: bool,
        /// Whether it repeated an earlier answer under the same request id.
        replayed: bool,
    },
    /// The outage mode decided.
    Degraded(OutageMode),
    /// There was no decision: the code of the error.
    Failed(String),
}

impl Answer {
    /// Whether the store decided.
    #[must_use]
    pub const fn is_by_store(&self) -> bool {
        matches!(self, Self::Store { .. })
    }

    /// Whether the store did not answer, and the mode decided.
    #[must_use]
    pub fn is_of_outage(&self) -> bool {
        match self {
            Self::Store { .. } => false,
            Self::Degraded(_) => true,
            Self::Failed(code) => code == "store_unavailable" || code == "timeout",
        }
    }

    /// Whether the error means that nothing was charged, because other callers came first.
    #[must_use]
    pub fn is_contention(&self) -> bool {
        matches!(self, Self::Failed(code) if code == "queue_full" || code == "conflict_exhausted")
    }
}

/// Samples in numbers.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// All calls.
    pub calls: usize,
    /// Calls that the store decided.
    pub by_store: usize,
    /// Calls that the outage mode decided.
    pub degraded: usize,
    /// Calls without a decision, by the code of the error.
    pub refused: BTreeMap<String, usize>,
    /// The longest answer.
    pub longest: Duration,
    /// The median answer.
    pub median: Duration,
}

impl Summary {
    /// The numbers of these samples.
    #[must_use]
    pub fn of<'s>(samples: impl IntoIterator<Item = &'s Sample>) -> Self {
        let mut summary = Self::default();
        let mut took = Vec::new();
        for sample in samples {
            summary.calls += 1;
            match &sample.answer {
                Answer::Store { .. } => summary.by_store += 1,
                Answer::Degraded(_) => summary.degraded += 1,
                Answer::Failed(code) => *summary.refused.entry(code.clone()).or_default() += 1,
            }
            took.push(sample.took);
        }
        took.sort_unstable();
        summary.longest = took.last().copied().unwrap_or_default();
        summary.median = took.get(took.len() / 2).copied().unwrap_or_default();
        summary
    }

    /// The share of calls that the store decided, in hundredths of a percent, rounded down.
    #[must_use]
    pub fn store_share(&self) -> usize {
        self.by_store * 10_000 / self.calls.max(1)
    }

    /// The codes of the errors with their numbers, or a dash.
    #[must_use]
    pub fn refusals(&self) -> String {
        if self.refused.is_empty() {
            return "–".to_owned();
        }
        let each = self.refused.iter().map(|(code, count)| format!("{count} {code}"));
        each.collect::<Vec<_>>().join(", ")
    }
}

impl core::fmt::Display for Summary {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let share = self.store_share();
        write!(
            f,
            "{} calls: {} by the store ({}.{:02} %), {} degraded, refused: {}; median {}, longest \
             {}",
            self.calls,
            self.by_store,
            share / 100,
            share % 100,
            self.degraded,
            self.refusals(),
            ms(self.median),
            ms(self.longest),
        )
    }
}

/// Milliseconds with one decimal.
#[must_use]
pub(crate) fn ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}
