//! What is compared: each contender is one file that answers "may this key pass now?".
//!
//! [`Contender`] is what such a file implements; [`Table`] is the interface of the measurements.
//! The loop over the checks is compiled once per contender, so one dynamic call is made per run and
//! none per check.

mod dashmap;
mod governor;
mod key_only;
mod quota;
mod throttlecrab;
mod tollgate;

use std::hint::black_box;
use std::time::Duration;

use crate::Result;
use crate::workload::Spread;

/// What the timed checks find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Keys that owe something, and a burst so large that every check passes.
    Allow,
    /// Keys whose debt has decayed when they are checked again, as under light traffic.
    Fresh,
    /// Keys that were drained before, and stay so for hours: every check is refused.
    Deny,
}

impl Path {
    /// All paths.
    pub(crate) const ALL: [Self; 3] = [Self::Allow, Self::Fresh, Self::Deny];

    /// The name in filters and tables.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Fresh => "fresh",
            Self::Deny => "deny",
        }
    }

    /// The path of this name.
    pub(crate) fn find(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|path| path.id() == id)
    }

    /// Whether the timed checks pass.
    pub(crate) const fn is_allowed(self) -> bool {
        !matches!(self, Self::Deny)
    }
}

/// The workload of a contender: the same quota for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// What the timed checks find.
    pub(crate) path: Path,
    /// How many keys there will be: a contender may reserve room, if it can.
    pub(crate) keys: usize,
    /// Whether a table with a default size keeps it.
    pub(crate) has_default_table: bool,
    /// Units per period.
    pub(crate) count: u32,
    /// The period, in whole seconds.
    pub(crate) period: Duration,
    /// Units that fit at once.
    pub(crate) burst: u32,
}

impl Setup {
    /// A quota that keeps these keys on the path for as long as a benchmark takes.
    ///
    /// No unit takes a whole number of microseconds to come back, as quotas go. With `wide` the
    /// denominator is too large for Tollgate's one-word states.
    pub(crate) const fn new(path: Path, spread: Spread, wide: bool) -> Self {
        let keys = spread.keys();
        let (count, seconds, burst) = match (path, wide) {
            // One key takes all checks: a burst of a thousand million.
            (Path::Allow, false) if keys == 1 => (3, 1, 1 << 30),
            (Path::Allow, true) if keys == 1 => (1_031, 400, 1 << 30),
            // Many keys take few checks each, far apart: a unit is owed for nine minutes.
            (Path::Allow, false) => (7, 3_600, 1 << 23),
            (Path::Allow, true) => (1_031, 530_000, 1 << 23),
            // A unit is owed for a nanosecond.
            (Path::Fresh, false) => (1_000_000_000, 1, 1 << 30),
            (Path::Fresh, true) => (999_999_937, 1, 1 << 30),
            // A burst of two, because throttlecrab never limits a burst of one.
            (Path::Deny, false) => (2, 86_400, 2),
            (Path::Deny, true) => (1_031, 50_000_000, 2),
        };
        let has_default_table = spread.has_default_table();
        let period = Duration::from_secs(seconds);
        Self { path, keys, has_default_table, count, period, burst }
    }
}

/// One of those compared.
pub(crate) trait Contender: Send + Sync + Sized + 'static {
    /// The whole answer, as its users get it.
    type Answer;

    /// A limiter without keys.
    fn new(setup: &Setup) -> Self;

    /// One check of one unit, clock included.
    #[expect(clippy::ptr_arg, reason = "governor needs a `&String` in order not to allocate")]
    fn check(&self, key: &String) -> Self::Answer;

    /// Whether the answer lets the request pass.
    fn is_allowed(&self, answer: &Self::Answer) -> bool;
}

/// A contender with its keys, ready to be measured.
pub(crate) trait Table: Send + Sync {
    /// Inserts every key and, on the deny path, drains it.
    fn prepare(&self, keys: &[String], path: Path) -> Result<()>;

    /// Checks the keys in this order and counts those allowed. Everything timed happens here.
    fn timed_checks(&self, keys: &[String], order: &[u32]) -> u64;
}

impl<C: Contender> Table for C {
    fn prepare(&self, keys: &[String], path: Path) -> Result<()> {
        // A rival may count its first unit differently; none needs more than this to be drained.
        const MOST_CHECKS: usize = 8;
        let is_ready = |key| self.is_allowed(&self.check(key)) == path.is_allowed();
        match keys.iter().find(|key| !(0..MOST_CHECKS).any(|_| is_ready(key))) {
            Some(key) => Err(format!("{key} does not reach the {} path", path.id())),
            None => Ok(()),
        }
    }

    #[inline(never)]
    fn timed_checks(&self, keys: &[String], order: &[u32]) -> u64 {
        let mut allowed = 0;
        for &index in order {
            let answer = self.check(&keys[index as usize]);
            allowed += u64::from(self.is_allowed(black_box(&answer)));
        }
        allowed
    }
}

/// A contender in the list.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The name in filters.
    pub(crate) id: &'static str,
    /// The name in tables.
    pub(crate) title: &'static str,
    /// Builds it without keys.
    pub(crate) build: fn(&Setup) -> Box<dyn Table>,
}

impl Entry {
    const fn of<C: Contender>(id: &'static str, title: &'static str) -> Self {
        Self { id, title, build: |setup| Box::new(C::new(setup)) }
    }

    /// Builds it, with its keys in it.
    pub(crate) fn ready(&self, setup: &Setup, keys: &[String]) -> Result<Box<dyn Table>> {
        let table = (self.build)(setup);
        table.prepare(keys, setup.path).map_err(|error| format!("{}: {error}", self.id))?;
        Ok(table)
    }
}

/// The id of the contender that ratios refer to.
pub(crate) const OURS: &str = "tollgate";

/// All contenders, in the order of the table.
pub(crate) const ALL: &[Entry] = &[
    Entry::of::<tollgate::Tollgate>(OURS, "Tollgate"),
    Entry::of::<quota::Consume>("quota", "quota `consume`"),
    Entry::of::<quota::Check>("quota-bool", "quota `check` (bool)"),
    Entry::of::<governor::Plain>("governor", "governor"),
    Entry::of::<governor::WithState>("governor-state", "governor + state"),
    Entry::of::<throttlecrab::Locked>("throttlecrab", "throttlecrab + Mutex"),
    Entry::of::<dashmap::Counter>("dashmap", "bare DashMap"),
    Entry::of::<key_only::KeyOnly>("key-only", "key only"),
];

/// The contender of this id.
pub(crate) fn find(id: &str) -> Result<&'static Entry> {
    ALL.iter().find(|entry| entry.id == id).ok_or_else(|| {
        let ids: Vec<&str> = ALL.iter().map(|entry| entry.id).collect();
        format!("unknown contender `{id}`; known: {}", ids.join(", "))
    })
}
