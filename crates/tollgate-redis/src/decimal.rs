//! Integers as text. Every call has a dozen of them, most of them short: the formatter of the
//! standard library takes ten times as long.

/// As many as the longest number has, with its sign.
const ROOM: usize = 20;

/// A number in decimal digits.
pub(crate) struct Decimal {
    bytes: [u8; ROOM],
    start: usize,
}

impl Decimal {
    /// Of a number that is not negative.
    pub(crate) fn of(number: u64) -> Self {
        let mut bytes = [0_u8; ROOM];
        let (mut rest, mut start) = (number, ROOM);
        for place in bytes.iter_mut().rev() {
            *place = b'0' + (rest % 10) as u8;
            rest /= 10;
            start -= 1;
            if rest == 0 {
                break;
            }
        }
        Self { bytes, start }
    }

    /// Of a number that may be negative.
    pub(crate) fn of_signed(number: i64) -> Self {
        let mut digits = Self::of(number.unsigned_abs());
        // Those of a signed number leave room for its sign.
        if number < 0
            && let Some(place) = digits.bytes.get_mut(digits.start.saturating_sub(1))
        {
            *place = b'-';
            digits.start -= 1;
        }
        digits
    }

    pub(crate) fn digits(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

/// The number that a server wrote, if it is one.
#[cfg(feature = "client")]
pub(crate) fn read(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    // Counted downwards: there is one more negative number than there are positive ones.
    let down = digits.iter().try_fold(0_i64, |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_sub(i64::from(digit))
    })?;
    if is_negative { Some(down) } else { down.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [0, 1, 9, 10, 99, 100, 1_763_190_123_456_789, i64::MAX, -1, -10, i64::MIN] {
            let written = Decimal::of_signed(number);
            assert_eq!(core::str::from_utf8(written.digits()).unwrap(), number.to_string());
            #[cfg(feature = "client")]
            assert_eq!(read(written.digits()), Some(number));
        }
        let written = Decimal::of(u64::MAX);
        assert_eq!(core::str::from_utf8(written.digits()).unwrap(), u64::MAX.to_string());
    }

    #[test]
    #[cfg(feature = "client")]
    fn what_is_no_number_is_not_read() {
        for text in
            ["", "-", "+", "1x", "x", "--1", "9223372036854775808", "-9223372036854775809", "١"]
        {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(read(b"+7"), Some(7));
        assert_eq!(read(b"007"), Some(7));
    }
}
