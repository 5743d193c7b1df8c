//! Text that is stored in place while it is short, so that most requests allocate nothing for it.

use core::fmt;

use arrayvec::ArrayString;
use http::HeaderValue;

/// Bytes stored in place: enough for an address, a UUID, a short hash with its tag, or a field
/// with one limit.
const IN_PLACE: usize = 80;

/// Text that grows at its end.
#[derive(Clone, Debug, Default)]
pub struct ShortText {
    short: ArrayString<IN_PLACE>,
    /// The whole text, when it does not fit in place.
    long: Option<String>,
}

impl ShortText {
    /// The text.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        self.long.as_deref().unwrap_or(&self.short)
    }

    /// Appends a piece of text.
    #[inline]
    pub fn push(&mut self, text: &str) -> &mut Self {
        if self.long.is_some() || self.short.try_push_str(text).is_err() {
            self.push_long(text);
        }
        self
    }

    /// Appends a number.
    #[inline]
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.push(itoa::Buffer::new().format(number))
    }

    #[cold]
    fn push_long(&mut self, text: &str) {
        let short = &self.short;
        self.long.get_or_insert_with(|| short.as_str().to_owned()).push_str(text);
    }

    /// `None` if a character is not accepted in a header.
    pub(crate) fn header_value(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(self.as_str()).ok()
    }
}

impl fmt::Write for ShortText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_whatever_their_length() {
        for piece in ["", "a", "ü", "2001:db8::7", &"x".repeat(78), &"ü".repeat(300)] {
            let (mut text, mut expected) = (ShortText::default(), String::new());
            for _ in 0..12 {
                text.push(piece);
                expected.push_str(piece);
                assert_eq!(text.as_str(), expected);
            }
        }
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_does() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let (mut text, mut expected) = (ShortText::default(), String::new());
        for number in powers.flat_map(|power| [power - 1, power, power + 1]).chain([u64::MAX]) {
            text.number(number).push(", ");
            expected.push_str(&format!("{number}, "));
            assert_eq!(text.header_value().unwrap(), expected);
        }
    }
}
