//! Numbers as servers write them.

/// The number that a server wrote, if it is one.
pub(super) fn read(text: &[u8]) -> Option<i64> {
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
    fn numbers_are_read_as_the_standard_library_reads_them() {
        for number in [0, 1, 9, 10, 1_763_190_123_456_789, i64::MAX, -1, -10, i64::MIN] {
            assert_eq!(read(number.to_string().as_bytes()), Some(number));
        }
        assert_eq!(read(b"+7"), Some(7));
        assert_eq!(read(b"007"), Some(7));
    }

    #[test]
    fn what_is_no_number_is_not_read() {
        for text in
            ["", "-", "+", "1x", "x", "--1", "9223372036854775808", "-9223372036854775809", "١"]
        {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
