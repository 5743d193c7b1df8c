//! A password that does not show.

use core::fmt;

/// A text that `Debug` does not tell.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the wire.
    pub(super) const fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
