//! The text of a subject, kept in place while it is short: an ordinary request allocates nothing.

use core::fmt;

use arrayvec::ArrayString;

/// Bytes kept in place: enough for an address, a UUID or a short hash with its tag.
const IN_PLACE: usize = 80;

/// Who or what is limited, as text: an extractor writes it, a limit is charged for it.
#[derive(Clone, Default)]
pub struct Subject {
    short: ArrayString<IN_PLACE>,
    /// All of the text, once it is too long.
    long: Option<String>,
}

impl Subject {
    /// The text.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        self.long.as_deref().unwrap_or(&self.short)
    }

    /// Appends a piece of text.
    #[inline]
    pub fn push(&mut self, text: &str) {
        if self.long.is_some() || self.short.try_push_str(text).is_err() {
            self.push_long(text);
        }
    }

    /// Appends the first `N` bytes of a text. The compiler knows how to copy so many; to call
    /// something that copies any number would cost more than the copy.
    #[inline]
    pub(crate) fn push_exactly<const N: usize>(&mut self, text: &str) {
        if let Some(text) = text.get(..N) {
            self.push(text);
        }
    }

    #[cold]
    fn push_long(&mut self, text: &str) {
        let short = &self.short;
        self.long.get_or_insert_with(|| short.as_str().to_owned()).push_str(text);
    }

    /// Forgets the text.
    pub fn clear(&mut self) {
        self.short.clear();
        self.long = None;
    }
}

impl fmt::Write for Subject {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

/// How long it is, not what it says: a subject may be a secret.
impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subject({} bytes)", self.as_str().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_whatever_their_length() {
        for piece in ["", "a", "ü", "2001:db8::7", &"x".repeat(78), &"ü".repeat(300)] {
            let mut subject = Subject::default();
            let mut expected = String::new();
            for _ in 0..12 {
                subject.push(piece);
                expected.push_str(piece);
                assert_eq!(subject.as_str(), expected);
            }
            subject.clear();
            assert_eq!(subject.as_str(), "");
        }
    }

    #[test]
    fn debug_shows_no_text() {
        let mut subject = Subject::default();
        subject.push("hunter2");
        assert_eq!(format!("{subject:?}"), "Subject(7 bytes)");
    }
}
