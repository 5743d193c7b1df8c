//! Values as people write them: durations, rates, addresses. Each error says what is accepted.

use std::net::SocketAddr;
use std::time::Duration;

use tollgate::limiter::Share;
use tollgate::{OutageMode, Quota};

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
pub(super) fn units() -> impl Iterator<Item = &'static str> {
    UNITS.iter().flat_map(|(names, _)| names.iter().copied())
}

/// A whole number; underscores may group its digits.
pub(super) fn whole(text: &str) -> Result<u64, String> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok());
    let wrong = || format!("{:?} is no whole number that fits", shown(text));
    number.flatten().ok_or_else(wrong)
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
        format!("{:?} is no duration; accepted: such as 100ms, 30s, 1m, 2h, 1d", shown(text))
    })
}

/// A rate such as `100 per 1m` or `5 per second`.
pub(super) fn rate(text: &str) -> Result<Quota, String> {
    let wrong = |why: &str| {
        format!("{:?} is no rate{why}; accepted: such as 100 per 1m, 5 per second", shown(text))
    };
    let (units, period) = text.split_once(" per ").ok_or_else(|| wrong(""))?;
    let units = whole(units.trim()).map_err(|_| wrong(": its number is not whole"))?;
    let period = duration(period).map_err(|_| wrong(": its period is no duration"))?;
    Ok(Quota::new(units, period))
}

/// A decimal number of units per second, such as `1` or `0.001`, exactly.
pub(super) fn per_second(text: &str) -> Result<Quota, String> {
    let wrong = || {
        format!("{:?} is no rate; accepted: a number per second such as 1 or 0.001", shown(text))
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

/// An address and a port, or `off`.
pub(super) fn address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    let accepted = "accepted: an address with a port such as 127.0.0.1:8080, or off";
    text.parse().map(Some).map_err(|_| format!("{:?} is no address; {accepted}", shown(text)))
}

/// `true` or `false`.
pub(super) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{:?} is not accepted; accepted: true, false", shown(text))),
    }
}

/// What happens when the store cannot answer.
pub(super) fn outage(text: &str) -> Result<OutageMode, String> {
    match text {
        "open" => Ok(OutageMode::Open),
        "closed" => Ok(OutageMode::Closed),
        "local" => Ok(OutageMode::Local),
        _ => Err(format!("{:?} is not accepted; accepted: open, closed, local", shown(text))),
    }
}

/// A share such as `1/3`, or `1`.
pub(super) fn share(text: &str) -> Result<Share, String> {
    let wrong = || format!("{:?} is no share; accepted: 1, or a fraction such as 1/3", shown(text));
    let (part, of) = text.split_once('/').unwrap_or((text, "1"));
    let share = whole(part).and_then(|part| whole(of).map(|of| Share::new(part, of)));
    share.ok().and_then(Result::ok).ok_or_else(wrong)
}

/// A text from outside, short enough for an error.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_understood() {
        let minute = Duration::from_secs(60);
        assert_eq!(rate("100 per 1m"), Ok(Quota::new(100, minute)));
        assert_eq!(rate("1_000 per minute"), Ok(Quota::new(1_000, minute)));
        assert_eq!(rate("5 per 90 seconds"), Ok(Quota::new(5, Duration::from_secs(90))));
        assert_eq!(per_second("0.001"), Ok(Quota::new(1, Duration::from_secs(1_000))));
        assert_eq!(per_second("2.50"), Ok(Quota::new(250, Duration::from_secs(100))));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
    }

    #[test]
    fn nonsense_is_refused_and_says_what_is_accepted() {
        for text in
            ["", "100", "100/m", "x per 1m", "-1 per 1m", "1.5 per 1m", "1 per 1x", "1 per "]
        {
            assert!(rate(text).is_err_and(|why| why.contains("accepted")), "{text}");
        }
        for text in ["", ".", "0", "0.0", "-1", "1e3", "1.2.3", "0.00000000000000000000000001"] {
            assert!(per_second(text).is_err_and(|why| why.contains("accepted")), "{text}");
        }
        for text in ["", "10", "10 parsecs", "99999999999999999999s", "18446744073709551615w"] {
            assert!(duration(text).is_err_and(|why| why.contains("accepted")), "{text}");
        }
    }
}
