//! The text of what a limit counts.

use core::fmt;

use tollgate_http::ShortText;

/// The text of what a limit counts: an extractor writes it, and the limit is charged for it.
#[derive(Clone, Default)]
pub struct Subject(ShortText);

impl Subject {
    /// The text.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Appends a piece of text.
    #[inline]
    pub fn push(&mut self, text: &str) {
        self.0.push(text);
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
    fn debug_shows_no_text() {
        let mut subject = Subject::default();
        subject.push("hunter2");
        assert_eq!(format!("{subject:?}"), "Subject(7 bytes)");
    }
}
