//! A limit in the words of a configuration: `100 per 1m, burst 20`.
//!
//! A schedule keeps its rate in lowest terms, so 100 per minute comes back as 5 per 3 seconds. The
//! words are those of the same limit over a period that people use, if there is one.

use std::fmt;
use std::time::Duration;

use tollgate_core::Rule;
use tollgate_core::algorithm::{Anchor, Description, Kind, Renewal};

/// A limit in words. `Display` has all of them in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitWords {
    /// The algorithm; absent for the one of limits that name none.
    pub algorithm: Option<String>,
    /// The rate, and the name of its field.
    pub rate: (&'static str, String),
    /// The optional field of the algorithm with its value, unless that is the default.
    pub option: Option<(&'static str, String)>,
}

/// Periods that people use, in microseconds.
const PERIODS: [u64; 5] = [SECOND, 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND, 604_800 * SECOND];
const SECOND: u64 = 1_000_000;
/// Units of durations, the largest first.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400 * SECOND),
    ("h", 3_600 * SECOND),
    ("m", 60 * SECOND),
    ("s", SECOND),
    ("ms", 1_000),
    ("us", 1),
];

impl LimitWords {
    /// The words of a rule.
    #[must_use]
    pub fn of(rule: &Rule) -> Self {
        let described = rule.describe();
        let kind = Kind::of_name(rule.name());
        let (units, period) = rate(&described);
        let rate = format!("{units} per {}", duration(period));
        let field = kind.map_or("limit", |kind| kind.fields().rate);
        Self {
            algorithm: (kind != Some(Kind::Gcra)).then(|| rule.name().to_owned()),
            rate: (field, rate),
            option: kind.and_then(|kind| option(kind, &described, units)),
        }
    }
}

impl fmt::Display for LimitWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(algorithm) = &self.algorithm {
            write!(f, "{algorithm} ")?;
        }
        f.write_str(&self.rate.1)?;
        match &self.option {
            Some((name, value)) => write!(f, ", {name} {value}"),
            None => Ok(()),
        }
    }
}

/// The most units that a configuration may state.
const UNITS_MAX: u64 = 1 << 48;

/// Units per period. Of a schedule the period in which the ceiling comes back, if people use it,
/// else the shortest one that they use and that has whole units.
fn rate(described: &Description) -> (u64, u64) {
    let Description { ceiling, units, period, renewal, .. } = *described;
    let times = |period: u64, factor: u64| {
        let units = units.checked_mul(factor).filter(|units| *units <= UNITS_MAX)?;
        Some((units, period.checked_mul(factor)?))
    };
    let whole = ceiling.is_multiple_of(units).then(|| times(period, ceiling / units)).flatten();
    let used = PERIODS.into_iter().find(|used| used.is_multiple_of(period));
    let used = used.and_then(|used| times(period, used / period));
    match (renewal, whole) {
        (Renewal::Steady, Some(whole)) if PERIODS.contains(&whole.1) => whole,
        (Renewal::Steady, whole) => used.or(whole).unwrap_or((units, period)),
        _ => (units, period),
    }
}

/// The optional field, unless it has its default.
fn option(kind: Kind, described: &Description, units: u64) -> Option<(&'static str, String)> {
    let name = kind.fields().option?.name;
    let ceiling = described.ceiling;
    let (value, default) = match kind {
        Kind::Gcra | Kind::TokenBucket => (ceiling.to_string(), units.to_string()),
        // One unit is under way, beside those that wait.
        Kind::LeakyBucket => (ceiling.saturating_sub(1).to_string(), "0".to_owned()),
        Kind::FixedWindow => {
            let from_first = described.renewal == Renewal::Window(Anchor::FirstHit);
            (if from_first { "first_hit" } else { "epoch" }.to_owned(), "epoch".to_owned())
        }
        Kind::SlidingWindow => match described.renewal {
            Renewal::Buckets(buckets) => (buckets.to_string(), "1".to_owned()),
            _ => return None,
        },
        Kind::SlidingLog => return None,
    };
    (value != default).then_some((name, value))
}

/// A duration in the largest unit in which it is whole.
fn duration(micros: u64) -> String {
    let unit = UNITS.into_iter().find(|(_, unit)| micros.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) => format!("{}{name}", micros / unit),
        None => format!("{:?}", Duration::from_micros(micros)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::policies_from_yaml;

    fn words(section: &str) -> String {
        let policies = policies_from_yaml(&format!("policies: {{p: {{{section}}}}}")).unwrap();
        LimitWords::of(policies.find("p").unwrap().limits().next().unwrap().rule()).to_string()
    }

    #[test]
    fn words_are_those_of_the_file_for_periods_that_people_use() {
        for section in ["100 per 1m", "3 per 1h", "10 per 1s", "5 per 1d", "1 per 7d", "7 per 1m"] {
            let written = format!("limit: {section}");
            assert_eq!(words(&written), section);
        }
        assert_eq!(words("limit: 100 per 1m, burst: 20"), "100 per 1m, burst 20");
        let bucket = words("algorithm: token_bucket, refill: 1 per 1s, capacity: 10");
        assert_eq!(bucket, "token_bucket 1 per 1s, capacity 10");
        let queue = words("algorithm: leaky_bucket, rate: 5 per 1s, queue: 50");
        assert_eq!(queue, "leaky_bucket 5 per 1s, queue 50");
        let fixed = words("algorithm: fixed_window, limit: 10_000 per 1d, anchor: first_hit");
        assert_eq!(fixed, "fixed_window 10000 per 1d, anchor first_hit");
        assert_eq!(words("algorithm: sliding_log, limit: 9 per 90s"), "sliding_log 9 per 90s");
    }

    /// Whatever the words are, they are those of the same limit.
    #[test]
    fn words_read_back_as_the_same_limit() {
        let sections = [
            "limit: 20 per 90s, burst: 7",
            "limit: 7 per 13ms",
            "limit: 1_000_003 per 17d",
            "limit: 3 per 1us",
            "limit: 1_000_000_000 per 1us",
            "algorithm: leaky_bucket, rate: 6 per 1w",
            "algorithm: token_bucket, refill: 9 per 7s, capacity: 2",
            "algorithm: sliding_window, limit: 6 per 36s, buckets: 3",
        ];
        for section in sections {
            let of = |section: &str| {
                let text = format!("policies: {{p: {{{section}}}}}");
                let policies = policies_from_yaml(&text).unwrap();
                policies.find("p").unwrap().limits().next().unwrap().rule().clone()
            };
            let rule = of(section);
            let LimitWords { algorithm, rate, option } = LimitWords::of(&rule);
            let fields = algorithm.map(|name| ("algorithm", name)).into_iter();
            let fields = fields.chain([rate]).chain(option);
            let written: Vec<_> = fields.map(|(name, value)| format!("{name}: {value}")).collect();
            let written = written.join(", ");
            assert_eq!(of(&written).quota_id(), rule.quota_id(), "{section} became {written}");
        }
    }
}
