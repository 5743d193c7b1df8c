//! How scripts reach a server: a call goes out, a reply comes back.
//!
//! This is all that the store asks of a client, so that people can bring their own. A transport
//! sends the words of a [`Call`] as one command and hands back what the server answered, an error
//! reply included: what an error means is decided in one place, here.

use core::future::Future;
use std::borrow::Cow;
use std::sync::Arc;

use tollgate_core::store::patience::one_by_one;
use tollgate_core::{BoxFuture, MaybeSend, MaybeSync, Result};

use crate::decimal::Decimal;
use crate::encode;
use crate::integers::Integers;
pub use crate::meaning::meaning_of;
use crate::script::Script;
use crate::slot::slot_of;

/// Which keys may share a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Any keys: one server holds them all.
    #[default]
    AnyKeys,
    /// Only keys of one hash slot: a cluster.
    SameSlot,
}

/// Sends calls to a server.
pub trait Transport: MaybeSend + MaybeSync + 'static {
    /// Which keys may share a call. A constant.
    fn sharing(&self) -> Sharing {
        Sharing::AnyKeys
    }

    /// Sends one call and waits for its reply.
    ///
    /// An error reply of the server is a reply. An `Err` means that there is none: it must be marked
    /// as [`unsent`](tollgate_core::Error::unsent) if the call certainly did not reach the server. A transport never
    /// sends a call twice on its own, unless the server said that it did not run it (MOVED).
    fn send(&self, call: &Call) -> impl Future<Output = Result<Reply>> + MaybeSend;

    /// Sends several calls, in order for each key, and waits for all replies. One that can have
    /// several calls under way should. When the time is up
    /// ([`patience`](tollgate_core::store::patience)), what was answered should not be lost.
    fn send_all(&self, calls: &[Call]) -> impl Future<Output = Vec<Result<Reply>>> + MaybeSend {
        one_by_one(calls, |call| self.send(call))
    }

    /// Lets work go on that must not end with the caller who began it. The default runs it inside
    /// of that caller, whose going away then costs those who wait with it their answer.
    fn spawner(&self) -> Option<Spawner> {
        None
    }

    /// Connections of one's own, if there are any: algorithms without a script need them.
    fn sessions(&self) -> Option<&dyn Sessions> {
        None
    }

    /// Releases connections.
    fn close(&self) -> impl Future<Output = ()> + MaybeSend {
        async {}
    }
}

/// Runs a future to its end in the background.
pub type Spawner = fn(BoxFuture<'static, ()>);

/// Opens connections that nobody else uses meanwhile, for WATCH.
pub trait Sessions: MaybeSend + MaybeSync {
    /// A connection to the server that holds this key.
    fn open<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Box<dyn Session>>>;
}

/// A connection of one's own. Dropping it with keys still watched must not leave them watched for
/// whoever gets the connection next.
pub trait Session: MaybeSend {
    /// Sends commands in one go and waits for all replies.
    ///
    /// Commands that begin with `WATCH` write nothing; a `MULTI` among them ends in a later run. In a
    /// cluster they go to another node if one of them is redirected, and those that follow with them.
    fn run<'a>(&'a mut self, commands: &'a [Command]) -> BoxFuture<'a, Result<Vec<Reply>>>;
}

/// A plain command.
#[derive(Clone, Debug)]
pub struct Command(Args);

impl Command {
    /// A command of these words.
    pub fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut args = Args::default();
        words.into_iter().for_each(|word| args.text(word));
        Self(args)
    }

    /// Its words.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One script with its keys and arguments.
#[derive(Clone, Debug)]
pub struct Call {
    keys: Keys,
    body: Arc<Body>,
    /// Sends the whole script instead of its digest: after the server said that it does not know it.
    whole: bool,
    key_count: Cow<'static, str>,
    /// Of its keys, if somebody has looked already.
    slot: Option<u16>,
    is_divisible: bool,
}

/// All of a call but its keys. Callers who are alone send the same again and again.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) script: Arc<Script>,
    pub(crate) args: Args,
}

/// Most calls have one key.
#[derive(Clone, Debug)]
enum Keys {
    One(String),
    Many(Vec<String>),
}

impl Call {
    /// A call of a script.
    #[must_use]
    pub fn new(script: Arc<Script>, keys: Vec<String>, args: Args) -> Self {
        let key_count = Cow::Owned(keys.len().to_string());
        let body = Arc::new(Body { script, args });
        Self {
            keys: Keys::Many(keys),
            body,
            whole: false,
            key_count,
            slot: None,
            is_divisible: false,
        }
    }

    /// The same call, whose keys have nothing to do with each other.
    pub(crate) fn divisible(self) -> Self {
        Self { is_divisible: self.keys().len() > 1, ..self }
    }

    /// A call with one key.
    pub(crate) const fn of_one(key: String, slot: Option<u16>, body: Arc<Body>) -> Self {
        let key_count = Cow::Borrowed("1");
        Self { keys: Keys::One(key), body, whole: false, key_count, slot, is_divisible: false }
    }

    /// The same call with the text of its script.
    #[must_use]
    pub fn with_text(&self) -> Self {
        Self { whole: true, ..self.clone() }
    }

    /// The script.
    #[must_use]
    pub fn script(&self) -> &Script {
        &self.body.script
    }

    /// The keys. In a cluster they share a hash slot.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        match &self.keys {
            Keys::One(key) => core::slice::from_ref(key),
            Keys::Many(keys) => keys,
        }
    }

    /// The hash slot of its keys in a cluster, if it has any.
    #[must_use]
    pub fn slot(&self) -> Option<u16> {
        self.slot.or_else(|| self.keys().first().map(|key| slot_of(key.as_bytes())))
    }

    /// Whether it has several keys that are charged independently. When a cluster answers such a call
    /// with `TRYAGAIN` there is no need to wait until their slot has moved: hand that reply back, and the
    /// keys come again one by one.
    #[must_use]
    pub const fn is_divisible(&self) -> bool {
        self.is_divisible
    }

    /// The words of the command: `EVALSHA digest count key… argument…`.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        let (verb, script) = match self.whole {
            false => ("EVALSHA", self.script().digest()),
            true => ("EVAL", self.script().text()),
        };
        let head = [verb, script, &self.key_count].map(str::as_bytes);
        let keys = self.keys().iter().map(|key| key.as_bytes());
        head.into_iter().chain(keys).chain(self.body.args.iter())
    }

    /// How many words the command has.
    #[must_use]
    pub fn len(&self) -> usize {
        3 + self.keys().len() + self.body.args.len()
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
        for key in self.keys() {
            encode::word(out, key.as_bytes());
        }
        out.extend_from_slice(&self.body.args.encoded);
    }
}

/// The arguments of a call, one after another in one buffer, as they travel to a server: a head and
/// an end around each.
#[derive(Clone, Debug, Default)]
pub struct Args {
    encoded: Vec<u8>,
    ends: Vec<usize>,
}

impl Args {
    /// Room for so many bytes in so many arguments.
    #[must_use]
    pub(crate) fn with_capacity(bytes: usize, count: usize) -> Self {
        Self { encoded: Vec::with_capacity(bytes), ends: Vec::with_capacity(count) }
    }

    /// Appends all arguments of others.
    pub(crate) fn append(&mut self, others: &Self) {
        let start = self.encoded.len();
        self.encoded.extend_from_slice(&others.encoded);
        self.ends.extend(others.ends.iter().map(|end| start + end));
    }

    /// Appends a text.
    pub fn text(&mut self, text: &str) {
        self.push(text.as_bytes());
    }

    /// Appends an integer.
    pub fn integer(&mut self, number: i64) {
        self.push(Decimal::of_signed(number).digits());
    }

    /// Appends an integer without a sign. Those of the store are below 2^53.
    pub fn unsigned(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    fn push(&mut self, word: &[u8]) {
        encode::word(&mut self.encoded, word);
        self.ends.push(self.encoded.len());
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The arguments, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        let encoded = &*self.encoded;
        starts
            .zip(&self.ends)
            .map(move |(start, end)| encode::bytes_of(encoded.get(start..*end).unwrap_or_default()))
    }
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// An integer.
    Integer(i64),
    /// A text, which need not be UTF-8.
    Text(Vec<u8>),
    /// Several replies.
    List(Vec<Self>),
    /// Several integers: what most scripts answer. A list of [`Integer`](Self::Integer)s says the same.
    Integers(Integers),
    /// An error: its first word is its kind.
    Error(String),
}

impl Reply {
    /// The reply, unless it is an error.
    ///
    /// # Errors
    /// What the error reply means (see [`meaning_of`]).
    pub fn ok(self) -> Result<Self> {
        match self {
            Self::Error(text) => Err(meaning_of(&text)),
            other => Ok(other),
        }
    }
}
