//! A call: one script with its keys and arguments, as it travels to a server.

use std::sync::Arc;

use crate::encode;
use crate::script::Script;
use crate::slot::slot_of;
use crate::transport::Args;

/// One script with its keys and arguments.
#[derive(Clone, Debug)]
pub struct Call {
    script: Arc<Script>,
    keys: Vec<String>,
    key_count: String,
    args: Args,
    /// Sends the text of the script instead of its digest: the server has no script of this
    /// digest.
    has_text: bool,
}

impl Call {
    /// A call of a script.
    #[must_use]
    pub fn new(script: Arc<Script>, keys: Vec<String>, args: Args) -> Self {
        let key_count = keys.len().to_string();
        Self { script, keys, key_count, args, has_text: false }
    }

    /// The same call with the text of its script.
    #[must_use]
    pub fn with_text(&self) -> Self {
        Self { has_text: true, ..self.clone() }
    }

    /// The script.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// The keys. In a cluster they share a hash slot.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The hash slot of its keys in a cluster, if it has any.
    #[must_use]
    pub fn slot(&self) -> Option<u16> {
        self.keys.first().map(|key| slot_of(key.as_bytes()))
    }

    /// The words of the command: `EVALSHA digest count key… argument…`.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        let (verb, script) = match self.has_text {
            false => ("EVALSHA", self.script.digest()),
            true => ("EVAL", self.script.text()),
        };
        let head = [verb, script, &self.key_count].map(str::as_bytes);
        let keys = self.keys.iter().map(|key| key.as_bytes());
        head.into_iter().chain(keys).chain(self.args.iter())
    }

    /// Appends the command as it travels, for transports over a socket of their own.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::head(out, b'*', 3 + self.keys.len() + self.args.len());
        self.words().for_each(|word| encode::word(out, word));
    }
}
