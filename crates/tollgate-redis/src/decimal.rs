//! Integers as text. Every call has a dozen of them, most of them short: the formatter of the
//! standard library takes ten times as long.

/// Appends a number.
pub(crate) fn push(out: &mut Vec<u8>, number: u64) {
    if number < 10 {
        out.push(digit(number));
        return;
    }
    let mut digits = [0_u8; 20];
    let (mut rest, mut used) = (number, 0);
    for place in digits.iter_mut().rev() {
        *place = digit(rest);
        rest /= 10;
        used += 1;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(digits.len() - used..).unwrap_or_default());
}

/// Appends a number that may be negative.
pub(crate) fn push_signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    push(out, number.unsigned_abs());
}

const fn digit(number: u64) -> u8 {
    b'0' + (number % 10) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        for number in [0, 1, 9, 10, 99, 100, 1_763_190_123_456_789, i64::MAX, -1, -10, i64::MIN] {
            let mut out = Vec::new();
            push_signed(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
        let mut out = Vec::new();
        push(&mut out, u64::MAX);
        assert_eq!(String::from_utf8(out).unwrap(), u64::MAX.to_string());
    }
}
