//! The algorithms of a configuration: their names, their fields, and how a rule is built from them.
//! The parser, the JSON Schema and the documentation use this one list. It matches on [`Kind`], so
//! that a new algorithm does not compile without its line here.

use tollgate_core::algorithm::{
    Anchor, FixedWindow, Gcra, Kind, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket,
};
use tollgate_core::{Quota, Result, Rule};

use super::values::{one_of, whole};

/// An algorithm and its fields.
#[derive(Clone, Copy, Debug)]
pub struct AlgorithmSpec {
    /// The name.
    pub name: &'static str,
    /// The field of its rate, which is required.
    pub rate: &'static str,
    /// Its other field, which is optional, if it has one.
    pub option: Option<OptionSpec>,
    build: Build,
}

type Build = fn(Quota, Option<u64>) -> Result<Rule>;

/// The optional field of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The name.
    pub name: &'static str,
    /// The accepted values.
    pub kind: OptionKind,
    /// What it means, for documentation.
    pub meaning: &'static str,
}

/// The values of an optional field.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// A whole number from this one on.
    Whole(u64),
    /// One of these words; its value is the position of the word.
    Word(&'static [&'static str]),
}

const ANCHORS: &[&str] = &["epoch", "first_hit"];

const fn number(name: &'static str, least: u64, meaning: &'static str) -> Option<OptionSpec> {
    Some(OptionSpec { name, kind: OptionKind::Whole(least), meaning })
}

/// Every algorithm; the first one is the default.
#[must_use]
pub fn algorithms() -> [AlgorithmSpec; Kind::ALL.len()] {
    Kind::ALL.map(AlgorithmSpec::of)
}

impl AlgorithmSpec {
    fn of(kind: Kind) -> Self {
        let spec = |rate, option, build: Build| Self { name: kind.name(), rate, option, build };
        match kind {
            Kind::Gcra => spec(
                "limit",
                number("burst", 1, "units at once; as many as the limit when absent"),
                |quota, burst| {
                    Ok(Rule::new(Gcra::with_burst(quota, burst.unwrap_or(quota.limit))?))
                },
            ),
            Kind::TokenBucket => spec(
                "refill",
                number("capacity", 1, "units at most; as many as the refill when absent"),
                |refill, capacity| {
                    let capacity = capacity.unwrap_or(refill.limit);
                    Ok(Rule::new(TokenBucket::new(capacity, refill)?))
                },
            ),
            Kind::LeakyBucket => spec(
                "rate",
                number("queue", 0, "how many may wait; 0 when absent"),
                |rate, queue| Ok(Rule::new(LeakyBucket::new(rate, queue.unwrap_or(0))?)),
            ),
            Kind::FixedWindow => {
                let kind = OptionKind::Word(ANCHORS);
                let anchor = OptionSpec { name: "anchor", kind, meaning: "where windows begin" };
                spec("limit", Some(anchor), |quota, anchor| {
                    let anchor = if anchor == Some(1) { Anchor::FirstHit } else { Anchor::Epoch };
                    Ok(Rule::new(FixedWindow::new(quota, anchor)?))
                })
            }
            Kind::SlidingWindow => spec(
                "limit",
                number("buckets", 1, "parts of the window; 1 when absent"),
                |quota, buckets| {
                    let buckets = buckets.unwrap_or(1);
                    Ok(Rule::new(SlidingWindow::with_buckets(quota, buckets)?))
                },
            ),
            Kind::SlidingLog => {
                spec("limit", None, |quota, _| Ok(Rule::new(SlidingLog::new(quota)?)))
            }
        }
    }

    /// The rule of this algorithm.
    ///
    /// # Errors
    /// `config_invalid` naming the field that is out of range.
    pub fn build(&self, rate: Quota, option: Option<u64>) -> Result<Rule> {
        (self.build)(rate, option)
    }
}

impl OptionSpec {
    /// The value of a text.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(&self, text: &str) -> Result<u64, String> {
        match self.kind {
            OptionKind::Whole(_) => whole(text),
            OptionKind::Word(words) => {
                let words: Vec<(&str, u64)> = words.iter().copied().zip(0..).collect();
                one_of(text, &words)
            }
        }
    }
}
