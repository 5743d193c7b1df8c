//! Scripts: a text and the digest the server knows it by.

use std::sync::Arc;

/// A Lua script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    text: String,
    digest: String,
}

impl Script {
    /// A script of this text.
    #[must_use]
    pub fn new(text: String) -> Arc<Self> {
        let digest = sha1_smol::Sha1::from(&text).digest().to_string();
        Arc::new(Self { text, digest })
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The SHA-1 of the text, in hexadecimal: what `EVALSHA` names it by.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}
