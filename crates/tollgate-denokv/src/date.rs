//! Parses RFC 3339 dates, for the expiry of a token.

/// Seconds since the Unix epoch; `None` for an invalid date.
pub(crate) fn seconds_of(text: &str) -> Option<i64> {
    let (date, time) = text.split_at_checked(10)?;
    let time = time.strip_prefix(['T', 't', ' '])?;
    let (clock, zone) = time.split_at_checked(8)?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !in_range || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = (days(year, month, day) * 24 + hour) * 3_600 + minute * 60 + second;
    Some(seconds - offset(without_fraction(zone)?)?)
}

/// Days since the epoch in the Gregorian calendar. Years begin in March here, so that the leap day
/// is the last day of a year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let days_before_month = (153 * ((month + 9) % 12) + 2) / 5;
    365 * year + year / 4 - year / 100 + year / 400 + days_before_month + day - 719_469
}

fn without_fraction(zone: &str) -> Option<&str> {
    let Some(fraction) = zone.strip_prefix('.') else { return Some(zone) };
    let rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < fraction.len()).then_some(rest)
}

/// The offset of the time zone in seconds.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = zone.split_at_checked(1)?;
    let [hours, minutes] = numbers(rest, ':', [2, 2])?;
    let ahead = hours * 3_600 + minutes * 60;
    match sign {
        "+" => Some(ahead),
        "-" => Some(-ahead),
        _ => None,
    }
}

/// Numbers with the given counts of digits, with a separator in between.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_right = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = part.parse().ok().filter(|_| is_right)?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_seconds() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59z", -1),
            ("2000-02-29T12:00:00.123456789Z", 951_825_600),
            ("2026-11-15T17:00:00+01:00", 1_794_758_400),
            ("2026-11-15T12:30:00-03:30", 1_794_758_400),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!(seconds_of(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn invalid_dates_are_refused() {
        let invalid = [
            "",
            "2026",
            "2026-11-15",
            "2026-11-15T17:00:00",
            "2026-13-15T17:00:00Z",
            "2026-11-15T17:00:00.Z",
            "2026-11-15T24:00:00Z",
            "2026-1-15T017:00:00Z",
            "2026-11-15T17:00:00+1",
            "2026-11-15X17:00:00Z",
            "2026-11-15T17:00:00Z ",
            "٢٠٢٦-11-15T",
        ];
        for text in invalid {
            assert_eq!(seconds_of(text), None, "{text}");
        }
    }
}
