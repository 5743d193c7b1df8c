//! The text of a subject, kept in place while it is short: an ordinary request allocates nothing.

use core::fmt;

/// Bytes kept in place: enough for an address, a UUID or a short hash with its tag.
const IN_PLACE: usize = 79;

/// Who or what is limited, as text: an extractor writes it, a limit is charged for it.
#[derive(Clone)]
pub struct Subject {
    length: u8,
    in_place: [u8; IN_PLACE],
    /// All of the text, once it is too long.
    long: Option<String>,
}

impl Default for Subject {
    fn default() -> Self {
        Self { length: 0, in_place: [0; IN_PLACE], long: None }
    }
}

impl Subject {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        if let Some(long) = &self.long {
            return long;
        }
        let text = self.in_place.get(..usize::from(self.length)).unwrap_or_default();
        // Only whole pieces of text were copied in.
        core::str::from_utf8(text).unwrap_or_default()
    }

    /// Appends a piece of text.
    pub fn push(&mut self, text: &str) {
        if let Some(long) = &mut self.long {
            return long.push_str(text);
        }
        let from = usize::from(self.length);
        let to = from.saturating_add(text.len());
        match (self.in_place.get_mut(from..to), u8::try_from(to)) {
            (Some(room), Ok(length)) => {
                room.copy_from_slice(text.as_bytes());
                self.length = length;
            }
            _ => {
                let mut long = String::with_capacity(to);
                long.push_str(self.as_str());
                long.push_str(text);
                self.long = Some(long);
            }
        }
    }

    /// Forgets the text.
    pub fn clear(&mut self) {
        self.length = 0;
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
