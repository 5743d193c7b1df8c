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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [0, 1, 9, 10, 99, 100, 1_763_190_123_456_789, i64::MAX, -1, -10, i64::MIN] {
            let written = Decimal::of_signed(number);
            assert_eq!(core::str::from_utf8(written.digits()).unwrap(), number.to_string());
        }
        let written = Decimal::of(u64::MAX);
        assert_eq!(core::str::from_utf8(written.digits()).unwrap(), u64::MAX.to_string());
    }
}
