//! A call: one script with its keys and arguments, as it travels to a server.

use std::borrow::Cow;
use std::sync::Arc;

use crate::encode;
use crate::script::Script;
use crate::slot::slot_of;
use crate::transport::Args;

/// One script with its keys and arguments.
#[derive(Clone, Debug)]
pub struct Call {
    keys: Keys,
    script: Arc<Script>,
    args: Args,
    /// Sends the whole script instead of its digest: after the server said that it does not know it.
    whole: bool,
    key_count: Cow<'static, str>,
    /// Of its keys, if somebody has looked already.
    slot: Option<u16>,
    hands_back: bool,
}

/// Most calls have one key.
#[derive(Clone, Debug)]
enum Keys {
    One(String),
    Many(Vec<String>),
    /// Of several slots that one node serves. Only the first is declared; how many others there are, and
    /// the name of a key that the node has to refuse, or none, stand between.
    Spread(Vec<String>, [String; 2]),
}

impl Call {
    /// A call of a script.
    #[must_use]
    pub fn new(script: Arc<Script>, keys: Vec<String>, args: Args) -> Self {
        let key_count = Cow::Owned(keys.len().to_string());
        Self {
            keys: Keys::Many(keys),
            script,
            args,
            whole: false,
            key_count,
            slot: None,
            hands_back: false,
        }
    }

    /// The same call, which is not to follow redirects.
    pub(crate) fn handing_back(self) -> Self {
        Self { hands_back: true, ..self }
    }

    /// The same call, which goes wherever it is sent.
    pub(crate) fn following(self) -> Self {
        Self { hands_back: self.is_spread(), ..self }
    }

    /// A call with keys of several slots of one district.
    pub(crate) fn spread(
        script: Arc<Script>,
        keys: Vec<String>,
        stranger: String,
        args: Args,
    ) -> Self {
        let key_count = Cow::Borrowed("1");
        let others = keys.len().saturating_sub(1).to_string();
        let keys = Keys::Spread(keys, [others, stranger]);
        Self { keys, script, args, whole: false, key_count, slot: None, hands_back: true }
    }

    /// A call with one key.
    pub(crate) const fn of_one(
        script: Arc<Script>,
        key: String,
        slot: Option<u16>,
        args: Args,
    ) -> Self {
        let key_count = Cow::Borrowed("1");
        Self { keys: Keys::One(key), script, args, whole: false, key_count, slot, hands_back: true }
    }

    /// The same call with the text of its script.
    #[must_use]
    pub fn with_text(&self) -> Self {
        Self { whole: true, ..self.clone() }
    }

    /// The script.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// The keys. In a cluster they share a hash slot, or [`are_spread`](Self::is_spread).
    #[must_use]
    pub fn keys(&self) -> &[String] {
        match &self.keys {
            Keys::One(key) => core::slice::from_ref(key),
            Keys::Many(keys) | Keys::Spread(keys, _) => keys,
        }
    }

    /// Whether its keys lie in several slots of one of the [`Districts`](crate::transport::Districts).
    #[must_use]
    pub const fn is_spread(&self) -> bool {
        matches!(self.keys, Keys::Spread(..))
    }

    /// Whether the node has to refuse a key of another node before it charges any of these.
    #[must_use]
    pub(crate) fn has_stranger(&self) -> bool {
        matches!(&self.keys, Keys::Spread(_, [_, stranger]) if !stranger.is_empty())
    }

    /// The hash slot of its keys in a cluster, or of the first, if it has any.
    #[must_use]
    pub fn slot(&self) -> Option<u16> {
        self.slot.or_else(|| self.keys().first().map(|key| slot_of(key.as_bytes())))
    }

    /// Whether a redirect (`MOVED`, `ASK`, `TRYAGAIN`) is to be handed back instead of followed: others wait
    /// until this call has ended, and are not to wait for another node. Its keys come again, one by one, in
    /// calls that follow. One that [`is_spread`](Self::is_spread) must not follow in any case: the redirect is meant for
    /// one of its keys, and after `ASKING` it would even charge keys that are still elsewhere.
    #[must_use]
    pub const fn hands_redirects_back(&self) -> bool {
        self.hands_back
    }

    /// The words of the command: `EVALSHA digest count key… argument…`.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        let (verb, script) = match self.whole {
            false => ("EVALSHA", self.script().digest()),
            true => ("EVAL", self.script().text()),
        };
        let head = [verb, script, &self.key_count].map(str::as_bytes);
        let keys = self.key_words().into_iter().flatten().map(|key| key.as_bytes());
        head.into_iter().chain(keys).chain(self.args.iter())
    }

    /// The keys as they travel: those that are declared, what is said of the others, the others.
    fn key_words(&self) -> [&[String]; 3] {
        match &self.keys {
            Keys::Spread(keys, between) => {
                let (declared, others) = keys.split_at(keys.len().min(1));
                [declared, between, others]
            }
            Keys::One(_) | Keys::Many(_) => [self.keys(), &[], &[]],
        }
    }

    /// How many words the command has.
    #[must_use]
    pub fn len(&self) -> usize {
        let keys: usize = self.key_words().iter().map(|words| words.len()).sum();
        3 + keys + self.args.len()
    }

    /// Never: a command has at least three words.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Appends the command as it travels, for transports over a socket of their own. Much of it was
    /// written before: this is faster than to write the words.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode::head(out, b'*', self.len());
        if self.whole {
            encode::word(out, b"EVAL");
            encode::word(out, self.script().text().as_bytes());
        } else {
            out.extend_from_slice(self.script().encoded());
        }
        encode::word(out, self.key_count.as_bytes());
        for key in self.key_words().into_iter().flatten() {
            encode::word(out, key.as_bytes());
        }
        out.extend_from_slice(self.args.encoded());
    }
}
