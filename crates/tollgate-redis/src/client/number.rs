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

/// Digits that make a number which fits for certain.
const SAFE_DIGITS: usize = 18;

/// The number at the beginning of a line, and how long the line is with its end, if all of it is there
/// and nothing about it is unusual. Most numbers are read here, in one go.
#[inline]
pub(super) fn read_line(bytes: &[u8]) -> Option<(i64, usize)> {
    let (sign, digits) = match bytes {
        [b'-', digits @ ..] => (1, digits),
        digits => (0, digits),
    };
    let (mut number, mut count) = (0_i64, 0);
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        // More digits than are safe are left to others.
        number = number.wrapping_mul(10).wrapping_add(i64::from(digit));
        count += 1;
    }
    let is_whole = digits.get(count..count + 2) == Some(b"\r\n");
    if !is_whole || !(1..=SAFE_DIGITS).contains(&count) {
        return None;
    }
    Some((if sign == 1 { -number } else { number }, sign + count + 2))
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
    fn a_line_is_read_as_its_number_or_left_to_others() {
        let longest = 10_i64.pow(18) - 1;
        for number in [0, 1, 9, 10, 1_763_190_123_456_789, longest, -longest, -1] {
            let line = format!("{number}\r\n:7\r\n");
            let length = number.to_string().len() + 2;
            assert_eq!(read_line(line.as_bytes()), Some((number, length)));
            for cut in 0..length {
                assert_eq!(read_line(&line.as_bytes()[..cut]), None, "{number} cut at {cut}");
            }
        }
        for text in [
            "\r\n",
            "-\r\n",
            "+7\r\n",
            "1x\r\n",
            "1\n",
            "1\rx",
            "1000000000000000000\r\n",
            "--1\r\n",
        ] {
            assert_eq!(read_line(text.as_bytes()), None, "{text:?}");
        }
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
