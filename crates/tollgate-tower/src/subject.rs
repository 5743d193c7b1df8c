//! The text of a subject, stored in place while it is short, so that most requests allocate
//! nothing.

use core::fmt;

use arrayvec::ArrayString;

/// Bytes stored in place: enough for an address, a UUID or a short hash with its tag.
const IN_PLACE: usize = 80;

/// The text of what a limit counts: an extractor writes it, and the limit is charged for it.
#[derive(Clone, Default)]
pub struct Subject {
    short: ArrayString<IN_PLACE>,
    /// The whole text, when it does not fit in place.
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

    #[cold]
    fn push_long(&mut self, text: &str) {
        let short = &self.short;
        self.long.get_or_insert_with(|| short.as_str().to_owned()).push_str(text);
    }
}

impl fmt::Write for Subject {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

/// The length only, because a subject may be a secret.
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
        }
    }

    #[test]
    fn debug_shows_no_text() {
        let mut subject = Subject::default();
        subject.push("hunter2");
        assert_eq!(format!("{subject:?}"), "Subject(7 bytes)");
    }
}
