//! Values of a configuration: numbers, durations, rates. Each error says what is wrong and what to
//! write instead.

use std::time::Duration;

use tollgate_core::store::{WhenFull, WhenIdsFull};
use tollgate_core::{OutageMode, Quota};

use crate::policy::Refunds;

pub use crate::policy::nearest;

/// Units of time, their names, and how many microseconds they take.
const UNITS: [(&[&str], u64); 7] = [
    (&["us", "microsecond", "microseconds"], 1),
    (&["ms", "millisecond", "milliseconds"], 1_000),
    (&["s", "second", "seconds"], 1_000_000),
    (&["m", "minute", "minutes"], 60_000_000),
    (&["h", "hour", "hours"], 3_600_000_000),
    (&["d", "day", "days"], 86_400_000_000),
    (&["w", "week", "weeks"], 604_800_000_000),
];

/// The names of all units of time.
pub fn units() -> impl Iterator<Item = &'static str> {
    UNITS.iter().flat_map(|(names, _)| names.iter().copied())
}

/// A whole number; underscores may group its digits.
///
/// # Errors
/// What is wrong.
pub fn whole(text: &str) -> Result<u64, String> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{:?} is not a whole number; write digits alone", shorten(text)));
    }
    digits.parse().map_err(|_| {
        format!("{:?} is too large a number; the largest is {}", shorten(text), u64::MAX)
    })
}

/// A duration such as `100ms`, `90 s` or `1 day`; the number may be left out of a rate.
///
/// # Errors
/// What is wrong, and what is accepted.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let micros = UNITS.iter().find(|(names, _)| names.contains(&unit)).map(|(_, micros)| micros);
    let number = if number.is_empty() { Ok(1) } else { whole(number) };
    let time = number.ok().zip(micros).and_then(|(number, micros)| number.checked_mul(*micros));
    time.map(Duration::from_micros).ok_or_else(|| {
        let text = shorten(text);
        format!("{text:?} is not a duration; write a number and a unit, such as 100ms, 30s or 1d")
    })
}

/// A rate such as `100/minute`, `100 per 1m` or `5 per second`.
///
/// # Errors
/// What is wrong, and what to write instead.
pub fn rate(text: &str) -> Result<Quota, String> {
    let wrong = |why: &str| {
        format!("{:?} is not a rate{why}; write such as 100/minute or 100 per 1m", shorten(text))
    };
    let parts = text.split_once(" per ").or_else(|| text.split_once('/'));
    let (units, period) = parts.ok_or_else(|| match text.parse::<u64>() {
        Ok(_) => wrong(": its period is missing"),
        Err(_) => wrong(""),
    })?;
    let units = whole(units.trim()).map_err(|_| wrong(": its number is not a whole number"))?;
    let period = duration(period).map_err(|_| wrong(": its period is not a duration"))?;
    Ok(Quota::new(units, period))
}

/// A decimal number of units per second, such as `1` or `0.001`, exactly.
///
/// # Errors
/// What is wrong, and what is accepted.
pub fn per_second(text: &str) -> Result<Quota, String> {
    let wrong = || {
        let text = shorten(text);
        format!("{text:?} is not a number per second; write a decimal such as 1 or 0.001")
    };
    let (whole_part, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole_part}{fraction}");
    let all = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let scale = u32::try_from(fraction.len()).ok().and_then(|digits| 10_u64.checked_pow(digits));
    let units: Option<u64> = if all(&digits) { digits.parse().ok() } else { None };
    match (units, scale) {
        (Some(units), Some(scale)) if units > 0 => {
            Ok(Quota::new(units, Duration::from_secs(scale)))
        }
        _ => Err(wrong()),
    }
}

/// One of several words.
///
/// # Errors
/// The words that are accepted.
pub fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let accepted: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let meant = nearest(text, accepted.iter().copied());
        let meant = meant.map_or_else(String::new, |near| format!("did you mean {near:?}? "));
        let accepted = accepted.join(", ");
        format!("{:?} is not accepted; {meant}accepted: {accepted}", shorten(text))
    })
}

/// `true` or `false`.
///
/// # Errors
/// The words that are accepted.
pub fn boolean(text: &str) -> Result<bool, String> {
    one_of(text, &[("true", true), ("false", false)])
}

/// What happens when the store cannot answer.
///
/// # Errors
/// The words that are accepted.
pub fn outage_mode(text: &str) -> Result<OutageMode, String> {
    let modes = [OutageMode::Open, OutageMode::Closed, OutageMode::Local];
    one_of(text, &modes.map(|mode| (mode.as_str(), mode)))
}

/// What happens to new keys of a policy whose table in memory is full.
///
/// # Errors
/// The words that are accepted.
pub fn when_full(text: &str) -> Result<WhenFull, String> {
    one_of(text, &[("protect", WhenFull::Protect), ("admit", WhenFull::Admit)])
}

/// What happens to new request ids of a policy that remembers as many as it may.
///
/// # Errors
/// The words that are accepted.
pub fn when_ids_full(text: &str) -> Result<WhenIdsFull, String> {
    one_of(text, &[("forget_oldest", WhenIdsFull::ForgetOldest), ("refuse", WhenIdsFull::Refuse)])
}

/// Who may give units back.
///
/// # Errors
/// The words that are accepted.
pub fn refunds(text: &str) -> Result<Refunds, String> {
    one_of(text, &Refunds::ALL)
}

/// A text from outside, short enough for an error message.
#[must_use]
pub fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed() {
        let minute = Duration::from_secs(60);
        assert_eq!(rate("100 per 1m"), Ok(Quota::new(100, minute)));
        assert_eq!(rate("1_000 per minute"), Ok(Quota::new(1_000, minute)));
        assert_eq!(rate("5 per 90 seconds"), Ok(Quota::new(5, Duration::from_secs(90))));
        assert_eq!(rate("100/minute"), Ok(Quota::new(100, minute)));
        assert_eq!(rate("10000/day"), Ok(Quota::new(10_000, Duration::from_secs(86_400))));
        assert_eq!(rate("5 / 90s"), Ok(Quota::new(5, Duration::from_secs(90))));
        assert_eq!(per_second("0.001"), Ok(Quota::new(1, Duration::from_secs(1_000))));
        assert_eq!(per_second("2.50"), Ok(Quota::new(250, Duration::from_secs(100))));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn invalid_values_are_refused_with_what_to_write_instead() {
        let refused = |why: String| ["write", "the largest is"].iter().any(|it| why.contains(it));
        for text in
            ["", "100", "100/", "100/x", "/m", "x per 1m", "-1 per 1m", "1.5/1m", "1 per ", "1//m"]
        {
            assert!(rate(text).is_err_and(refused), "{text}");
        }
        assert!(rate("100").is_err_and(|why| why.contains("its period is missing")));
        for text in ["", ".", "0", "0.0", "-1", "1e3", "1.2.3", "0.00000000000000000000000001"] {
            assert!(per_second(text).is_err_and(refused), "{text}");
        }
        for text in ["", "10", "10 parsecs", "99999999999999999999s", "18446744073709551615w"] {
            assert!(duration(text).is_err_and(refused), "{text}");
        }
        for text in ["", "_", "1.0", "-1", "99999999999999999999"] {
            assert!(whole(text).is_err_and(refused), "{text}");
        }
        let wrong = outage_mode("opne").unwrap_err();
        assert_eq!(
            wrong,
            "\"opne\" is not accepted; did you mean \"open\"? accepted: open, closed, local"
        );
    }
}
