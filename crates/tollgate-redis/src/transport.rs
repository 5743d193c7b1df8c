//! How scripts reach a server: a call goes out, a reply comes back.
//!
//! This is all that the store asks of a client, so that people can bring their own. A transport
//! sends the words of a [`Call`] as one command and hands back what the server answered, an error
//! reply included: what an error means is decided in one place, here.

use core::future::Future;
use std::sync::Arc;

use tollgate_core::store::patience::one_by_one;
use tollgate_core::{BoxFuture, MaybeSend, MaybeSync, Result};

pub use crate::call::Call;
use crate::decimal::Decimal;
pub use crate::districts::{Districts, Trust};
use crate::encode;
use crate::integers::Integers;
pub use crate::meaning::meaning_of;

/// Which keys may share a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Any keys: one server holds them all.
    #[default]
    AnyKeys,
    /// Only keys of one hash slot, or of one of the [`Districts`]: a cluster.
    SameSlot,
}

/// Sends calls to a server.
pub trait Transport: MaybeSend + MaybeSync + 'static {
    /// Which keys may share a call. A constant.
    fn sharing(&self) -> Sharing {
        Sharing::AnyKeys
    }

    /// Which slots of a cluster are served by one node, as far as is known now: then their keys share calls
    /// as well. The default knows nothing.
    fn districts(&self) -> Option<Arc<Districts>> {
        None
    }

    /// Sends one call and waits for its reply.
    ///
    /// An error reply of the server is a reply. An `Err` means that there is none: it must be marked
    /// as [`not_sent`](tollgate_core::Error::unsent) if the call certainly did not reach the server. A transport never
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

    /// All of them, as they travel.
    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
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
